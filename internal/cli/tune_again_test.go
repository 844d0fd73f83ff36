package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/knob"
)

// died is the panic of a program that a power cut ends.
type died struct{}

// applyUntil applies two settings that nobody commits, and dies at a step. It reports whether it died.
func applyUntil(t *testing.T, dir string, step int) (dies bool) {
	t.Helper()
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	u, err := tuner.Open(tuner.Host{
		Dir: filepath.Join(dir, "var/lib/berth/tune"), Root: root, Boot: "one",
		Now: time.Now, Boottime: func() time.Duration { return time.Hour },
		Step: func(string) {
			if n++; n == step {
				panic(died{})
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		r := recover()
		if _, dies = r.(died); r != nil && !dies {
			panic(r)
		}
		if err := errors.Join(u.Close(), root.Close()); err != nil { // releases the lock, as the kernel does
			t.Fatal(err)
		}
	}()
	o := tuner.Order{Confirm: time.Hour}
	o.Profile.Name = "uncommitted"
	for file, value := range map[string]string{"/sys/kernel/debug/sched/base_slice_ns": "6000000", "/proc/sys/kernel/numa_balancing": "0"} {
		k, _, _ := knob.At(file)
		o.Settings = append(o.Settings, tune.Setting{Knob: k.Name, File: file, Want: value, Write: value, Support: knob.Settable, Phase: k.Phase})
	}
	if _, err := u.Apply(o); err != nil {
		t.Fatal(err)
	}
	return false
}

// boots gives a host the files of its next boot: the runtime values of the kernel, and Berth's state.
func boots(t *testing.T, dir, id string, kernel map[string]string) {
	t.Helper()
	for name, text := range kernel {
		write(t, dir, name, text)
	}
	write(t, dir, "proc/sys/kernel/random/boot_id", id+"\n")
}

// kernelFiles returns the content of every file of the kernel.
func kernelFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for name := range digest(t, dir) {
		below := strings.TrimPrefix(name, dir+"/")
		if strings.HasPrefix(below, "proc/") || strings.HasPrefix(below, "sys/") {
			files[below] = content(t, name)
		}
	}
	delete(files, "proc/sys/kernel/random/boot_id")
	return files
}

// TestCommittedAfterPowerCut: a power cut at any step of an apply that nobody committed leaves nothing to apply. The
// unit of the packages then succeeds, once: systemd would repeat a failed start. Its next start changes nothing.
func TestCommittedAfterPowerCut(t *testing.T) {
	for step := 1; ; step++ {
		dir := bigHost(t, 4)
		write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
		before := kernelFiles(t, dir)
		dies := applyUntil(t, dir, step)
		_, recorded, err := tuner.Load(filepath.Join(dir, "var/lib/berth/tune"))
		if err != nil {
			t.Fatal(err)
		}
		boots(t, dir, "two", before)
		for n, want := range []string{"nothing was committed: profile uncommitted was not, and the boot ended it\n", "nothing was committed: nothing to apply\n"} {
			if !recorded { // it died before the record
				want = "nothing was committed: nothing to apply\n"
			}
			code, out, errs := berthRun(t, "tune", "apply", "--committed", "--root", dir)
			if code != 0 || out != want || strings.Contains(errs, "berth: ") {
				t.Errorf("step %d, start %d: exit %d, %q, %q, want %q", step, n, code, out, errs, want)
			}
			if d := cmp.Diff(before, kernelFiles(t, dir)); d != "" {
				t.Errorf("step %d, start %d (-before +after):\n%s", step, n, d)
			}
			if _, is, err := tuner.Load(filepath.Join(dir, "var/lib/berth/tune")); is || err != nil {
				t.Errorf("step %d, start %d: on record %t, %v", step, n, is, err)
			}
		}
		if !dies {
			if step < 8 {
				t.Errorf("the apply has only %d steps", step)
			}
			return
		}
	}
}

// TestCommittedBesideAnUncommitted: apply --committed applies nothing over a profile that waits for its commit, and
// says so. A profile on record that a boot ended is not in the way of the profile committed before it.
func TestCommittedBesideAnUncommitted(t *testing.T) {
	const head = "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: "
	dir := bigHost(t, 4)
	write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
	write(t, dir, "p.yaml", head+"p}\nspec: {settings: {fair.slice: 3ms}}\n")
	write(t, dir, "q.yaml", head+"q}\nspec: {settings: {fair.slice: 5ms}}\n")
	before := kernelFiles(t, dir)
	for i, step := range []struct {
		args, boot string
		code       int
		slice      string
		out, errs  string
	}{
		{args: "apply p", slice: "3000000"},
		{args: "apply --committed", code: 4, slice: "3000000", errs: "p, not committed"},
		{args: "commit", slice: "3000000"},
		{boot: "two"},
		{args: "apply q", slice: "5000000"},
		{args: "apply --committed", code: 4, slice: "5000000", errs: "q, not committed"},
		{boot: "three"},
		{args: "apply --committed", slice: "3000000", out: "profile p is applied"},
		{args: "apply --committed", slice: "3000000", out: "0 files written"},
		{args: "rollback", slice: "2800000\n"},
		{args: "apply --committed", slice: "2800000\n", out: "nothing to apply"},
	} {
		if step.boot != "" {
			boots(t, dir, step.boot, before)
			continue
		}
		args := append([]string{"tune", "--root", dir}, strings.Fields(step.args)...)
		if last := args[len(args)-1]; last == "p" || last == "q" {
			args[len(args)-1] = filepath.Join(dir, last+".yaml")
		}
		code, out, errs := berthRun(t, args...)
		if code != step.code || !strings.Contains(out, step.out) || !strings.Contains(errs, step.errs) {
			t.Errorf("%d, %s: exit %d: %s%s", i, step.args, code, out, errs)
		}
		if got := content(t, filepath.Join(dir, "sys/kernel/debug/sched/base_slice_ns")); got != step.slice && got+"\n" != step.slice {
			t.Errorf("%d, %s: the slice is %q, want %q", i, step.args, got, step.slice)
		}
	}
}

// TestCommittedInBootOnTrial: the unit of the packages succeeds in a boot on trial, whose profile is not committed
// yet, and leaves the trial to berth tune commit.
func TestCommittedInBootOnTrial(t *testing.T) {
	dir := bootHost(t, "systemd-boot")
	run := func(code int, said string, args ...string) {
		t.Helper()
		got, out, errs := berthRun(t, append([]string{"tune", "--root", dir}, args...)...)
		if got != code || !strings.Contains(out+errs, said) {
			t.Errorf("%q: exit %d: %s%s", args, got, out, errs)
		}
	}
	run(0, "", "apply", filepath.Join(dir, "p.yaml"))
	write(t, dir, "proc/sys/kernel/random/boot_id", "boot-1\n")
	write(t, dir, "proc/cmdline", "ro nohz_full=1-3 skew_tick=1\n")
	for range 2 {
		run(0, "this boot has the boot arguments on trial", "apply", "--committed")
	}
	run(0, "its boot arguments stay for good", "commit")
	if _, err := os.Stat(filepath.Join(dir, "var/lib/berth/tune/applied")); err != nil {
		t.Error(err)
	}
}

// TestCommittedThatStood: a value that the host had already when the profile was applied is not written then. After a
// boot that ended the value, apply --committed sets it, as all of the profile, and a rollback restores the boot's
// value.
func TestCommittedThatStood(t *testing.T) {
	const file = "sys/kernel/debug/sched/base_slice_ns"
	dir := bigHost(t, 4)
	write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
	write(t, dir, "p.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {settings: {fair.slice: 3ms}}\n")
	kernel := kernelFiles(t, dir)
	write(t, dir, file, "3000000\n")
	for _, step := range []struct{ args, slice, out string }{
		{args: "apply " + filepath.Join(dir, "p.yaml"), slice: "3000000\n", out: "0 files written; nothing is to be committed"},
		{args: "rollback", slice: "3000000\n"},
		{args: "apply " + filepath.Join(dir, "p.yaml"), slice: "3000000\n", out: "0 files written; nothing is to be committed"},
		{},
		{args: "apply --committed", slice: "3000000", out: "profile p is applied, 1 files written"},
		{args: "verify", slice: "3000000"},
		{args: "rollback", slice: "2800000"},
	} {
		if step.args == "" {
			boots(t, dir, "two", kernel)
			continue
		}
		code, out, errs := berthRun(t, append([]string{"tune", "--root", dir}, strings.Fields(step.args)...)...)
		if got := content(t, filepath.Join(dir, file)); code != 0 || got != step.slice || !strings.Contains(out, step.out) {
			t.Errorf("%s: exit %d, the slice is %q, want %q: %s%s", step.args, code, got, step.slice, out, errs)
		}
	}
}

// TestCommittedThatBerthRefuses: a profile may have a value that Berth refuses to set while the host has it. After a
// boot that ended the value, apply --committed refuses the profile, as a first apply would, and writes nothing.
func TestCommittedThatBerthRefuses(t *testing.T) {
	dir := bigHost(t, 4)
	write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
	write(t, dir, "proc/sys/kernel/shm_rmid_forced", "0\n")
	write(t, dir, "p.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {settings: {fair.slice: 3ms, sysctl.kernel.shm_rmid_forced: 1}}\n")
	kernel := kernelFiles(t, dir)
	write(t, dir, "proc/sys/kernel/shm_rmid_forced", "1\n")
	for _, step := range []struct {
		args string
		code int
		says string
	}{
		{"apply " + filepath.Join(dir, "p.yaml"), 0, "1 files written"},
		{"commit", 0, ""},
		{"", 0, ""},
		{"apply --committed", 3, "sysctl.kernel.shm_rmid_forced"},
	} {
		if step.args == "" {
			boots(t, dir, "two", kernel)
			continue
		}
		code, out, errs := berthRun(t, append([]string{"tune", "--root", dir}, strings.Fields(step.args)...)...)
		if code != step.code || !strings.Contains(out+errs, step.says) {
			t.Errorf("%s: exit %d: %s%s", step.args, code, out, errs)
		}
	}
	if d := cmp.Diff(kernel, kernelFiles(t, dir)); d != "" {
		t.Error(d)
	}
}

// TestCommittedWithAStoppedUnit: units of the committed profile that do not run after a boot, or that are removed, do
// not keep the rest of the profile out. Each of their settings is named, and stays on record. The same profile by hand
// is refused as ever.
func TestCommittedWithAStoppedUnit(t *testing.T) {
	const file = "sys/kernel/debug/sched/base_slice_ns"
	dir := bigHost(t, 4)
	write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
	write(t, dir, file, "2800000")
	write(t, dir, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
	write(t, dir, "etc/systemd/system/work.service", "[Service]\n")
	const settings = "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec:\n  settings: {fair.slice: 3ms}\n"
	write(t, dir, "p.yaml", settings)
	write(t, dir, "whole.yaml", settings+"  units: [{unit: work.service, cpus: '0-1', policy: batch}, {unit: removed.service, policy: idle}]\n")
	kernel := kernelFiles(t, dir)
	run := func(want int, args ...string) (out, errs string) {
		t.Helper()
		code, out, errs := berthRun(t, append([]string{"tune", "--root", dir}, args...)...)
		if code != want {
			t.Errorf("%s: exit %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out, errs
	}
	run(0, "apply", filepath.Join(dir, "p.yaml"))
	run(0, "commit")
	name := tuner.RecordFile(filepath.Join(dir, "var/lib/berth/tune"))
	record := strings.Replace(content(t, name), `"spec":{`, `"spec":{"units":[{"unit":"work.service","cpus":"0-1","policy":"batch"},{"unit":"removed.service","policy":"idle"}],`, 1)
	write(t, dir, strings.TrimPrefix(name, dir+"/"), record)
	all := []string{"unit.cpus work.service", "unit.policy work.service", "unit.policy removed.service"}
	for _, boot := range []string{"two", "three"} {
		boots(t, dir, boot, kernel)
		for n, writes := range []string{"1 files written", "0 files written"} { // a second start changes nothing
			out, _ := run(0, "apply", "--committed")
			if !strings.Contains(out, writes) {
				t.Errorf("boot %s, start %d: %s", boot, n, out)
			}
			for _, name := range all {
				if !strings.Contains(out, "note: "+name+" is left as it is: ") {
					t.Errorf("boot %s, start %d: no note of %s: %s", boot, n, name, out)
				}
			}
			if got := content(t, filepath.Join(dir, file)); got != "3000000" {
				t.Errorf("boot %s, start %d: the slice is %q", boot, n, got)
			}
		}
		out, _ := run(0, "verify", "-o", "json")
		if strings.Count(out, `"dormant"`) != len(all) {
			t.Errorf("verify: %s", out)
		}
	}
	run(0, "rollback")
	_, errs := run(3, "apply", filepath.Join(dir, "whole.yaml"))
	if d := cmp.Diff(kernel, kernelFiles(t, dir)); d != "" || !strings.Contains(errs, "the unit does not run") {
		t.Errorf("%s%s", errs, d)
	}
}
