package cli_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/agent/orphans"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/test/patience"
)

// TestNextCommandUndoes: after the deadline, any command of root undoes an uncommitted profile in the state directory
// of the agent's file. A profile of another boot is left alone. A command that promises to write nothing only says that
// the profile is due.
func TestNextCommandUndoes(t *testing.T) {
	here := strings.TrimSpace(content(t, "/proc/sys/kernel/random/boot_id"))
	for boot, stays := range map[string]bool{here: os.Geteuid() != 0, "another": true} {
		dir := t.TempDir()
		write(t, dir, "agent.yaml", "workloadDir: "+dir+"\nstateDir: "+dir+"\n")
		record, err := json.Marshal(tuner.Applied{Boot: boot, Phase: tuner.Trial, Deadline: 1})
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "tune/applied", string(record))
		config := filepath.Join(dir, "agent.yaml")
		for _, args := range [][]string{{"doctor", "--interval", "100ms"}, {"tune", "verify"}} {
			_, _, errs := berthRun(t, append(args, "--config", config)...)
			if _, is, err := tuner.Load(filepath.Join(dir, "tune")); !is || err != nil {
				t.Errorf("boot %s: %s undid it: %v", boot, args[0], err)
			}
			if said := strings.Contains(errs, "is due to be undone; this command leaves it"); said == stays {
				t.Errorf("boot %s: %s says %q", boot, args[0], errs)
			}
		}
		_, _, errs := berthRun(t, "status", "--config", config)
		if _, is, err := tuner.Load(filepath.Join(dir, "tune")); is != stays || err != nil {
			t.Errorf("boot %s: still there %v, want %v: %v", boot, is, stays, err)
		}
		if said := strings.Contains(errs, "was not committed in time"); said == stays {
			t.Errorf("boot %s: %q", boot, errs)
		}
	}
}

// TestUnitLeavesAProfileToItsKeeper: the agent's unit runs a rollback when an agent has ended. That rollback cannot
// write everything that a profile sets, so it must not start a partial undo.
func TestUnitLeavesAProfileToItsKeeper(t *testing.T) {
	here := strings.TrimSpace(content(t, "/proc/sys/kernel/random/boot_id"))
	dir := t.TempDir()
	write(t, dir, "agent.yaml", "workloadDir: "+dir+"\nstateDir: "+dir+"\n")
	record, err := json.Marshal(tuner.Applied{Boot: here, Phase: tuner.Trial, Deadline: 1})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "tune/applied", string(record))
	for _, owner := range orphans.Movers() {
		code, _, errs := berthRun(t, "rollback", "--owner", string(owner), "--config", filepath.Join(dir, "agent.yaml"))
		if _, is, err := tuner.Load(filepath.Join(dir, "tune")); !is || err != nil || code != 0 || errs != "" {
			t.Errorf("%s: exit %d; on record %t, %v; %s", owner, code, is, err, errs)
		}
	}
}

// TestTuneApplyContract: scripts rely on the keys of the JSON. A profile that was committed before a boot is applied
// again after it.
func TestTuneApplyContract(t *testing.T) {
	dir := bigHost(t, 4)
	write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
	write(t, dir, "p.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {settings: {fair.slice: 3ms}}\n")
	keys := func(want []string, args ...string) map[string]any {
		t.Helper()
		code, out, errs := berthRun(t, append(append([]string{"tune"}, args...), "--root", dir, "-o", "json")...)
		var got map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatalf("%q: exit %d, %v, %s", args, code, err, errs)
		}
		all := slices.Sorted(maps.Keys(got))
		if rows, _ := got["settings"].([]any); len(rows) > 0 {
			row, _ := rows[0].(map[string]any)
			all = append(all, slices.Sorted(maps.Keys(row))...)
		}
		if d := cmp.Diff(want, all); d != "" {
			t.Errorf("%q:\n%s", args, d)
		}
		return got
	}
	apply := []string{"deadline", "profile", "settings", "writes", "file", "instance", "knob", "state", "want", "was", "why"}
	keys(apply, "apply", filepath.Join(dir, "p.yaml"))
	keys([]string{"profile", "settings", "effective", "file", "instance", "knob", "state", "want"}, "verify")
	if now, _ := keys([]string{"applied", "profiles"}, "list")["applied"].(map[string]any); now["profile"] != "p" || now["phase"] != "trial" || now["deadline"] == "" {
		t.Errorf("applied: %v", now)
	}
	if code, _, errs := berthRun(t, "tune", "commit", "--root", dir); code != 0 {
		t.Fatal(errs)
	}
	write(t, dir, "proc/sys/kernel/random/boot_id", "two\n")
	write(t, dir, "sys/kernel/debug/sched/base_slice_ns", "2800000\n")
	if got := keys(apply, "apply", "--committed"); got["writes"] != 1.0 || got["deadline"] != "" {
		t.Errorf("%v", got)
	}
	if got := content(t, filepath.Join(dir, "sys/kernel/debug/sched/base_slice_ns")); got != "3000000" {
		t.Errorf("the slice is %q", got)
	}
}

// TestTuneDeadline: the process that an apply starts undoes it without any further command. The agent's file is the
// default one or a named one.
func TestTuneDeadline(t *testing.T) {
	for name, config := range map[string]bool{"default": false, "named": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := bigHost(t, 4)
			write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
			write(t, dir, "p.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {settings: {fair.slice: 3ms}}\n")
			args := []string{"tune", "apply", filepath.Join(dir, "p.yaml"), "--root", dir, "--confirm", "1s"}
			if config {
				write(t, dir, "agent.yaml", "workloadDir: /w\nstateDir: /elsewhere\n")
				args = append(args, "--config", filepath.Join(dir, "agent.yaml"))
			}
			if code, _, errs := berthRun(t, args...); code != 0 {
				t.Fatal(errs)
			}
			err := patience.Until(t.Context(), 20*time.Millisecond, func() string {
				return strings.TrimSuffix(content(t, filepath.Join(dir, "sys/kernel/debug/sched/base_slice_ns")), "2800000")
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRefusalsLeaveNoState: a command that is refused, or that only reads, creates no state directory.
func TestRefusalsLeaveNoState(t *testing.T) {
	dir := bigHost(t, 4)
	write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
	write(t, dir, "lacks.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: lacks}\nspec: {settings: {sysctl.vm.nothing: 1}}\n")
	write(t, dir, "p.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {settings: {irq.affinity: 0-1}}\n")
	write(t, dir, "proc/77/comm", "irqbalance\n")
	write(t, dir, "same.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: same}\nspec: {settings: {fair.slice: 2800us}}\n")
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"verify"}, 4},
		{[]string{"list"}, 0},
		{[]string{"commit"}, 4},
		{[]string{"rollback"}, 0},
		{[]string{"apply", "--committed"}, 0},
		{[]string{"apply", filepath.Join(dir, "lacks.yaml")}, 3},
		{[]string{"apply", filepath.Join(dir, "p.yaml")}, 4},
		{[]string{"apply", filepath.Join(dir, "missing.yaml")}, 2},
		{[]string{"bench", filepath.Join(dir, "lacks.yaml"), "--", os.Args[0]}, 3},
		{[]string{"bench", filepath.Join(dir, "same.yaml"), "--", os.Args[0]}, 1},
	} {
		args := slices.Insert(slices.Clone(test.args), 1, "--root", dir)
		if code, _, errs := berthRun(t, append([]string{"tune"}, args...)...); code != test.code {
			t.Errorf("%q: exit %d, want %d: %s", test.args, code, test.code, errs)
		}
		if _, err := os.Stat(filepath.Join(dir, "var")); err == nil {
			t.Fatalf("%q made a state directory", test.args)
		}
	}
}

// TestVerifyWithoutTheJournal: verify compares the host with the record. A note reports a journal that cannot be read.
func TestVerifyWithoutTheJournal(t *testing.T) {
	dir := bigHost(t, 4)
	write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
	write(t, dir, "same.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: same}\nspec: {settings: {fair.slice: 2800us}}\n")
	if code, _, errs := berthRun(t, "tune", "apply", filepath.Join(dir, "same.yaml"), "--root", dir); code != 0 {
		t.Fatal(errs)
	}
	file := filepath.Join(dir, "var/lib/berth/tune/journal")
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil { // a directory cannot be read as a file
		t.Fatal(err)
	}
	for now, want := range map[string]int{"2800000\n": 0, "3000000\n": 4} {
		write(t, dir, "sys/kernel/debug/sched/base_slice_ns", now)
		code, out, errs := berthRun(t, "tune", "verify", "--root", dir)
		if code != want || !strings.Contains(out, "fair.slice") || !strings.Contains(out, "note: stateDir/tune: read journal") {
			t.Errorf("%s: exit %d, want %d: %s%s", strings.TrimSpace(now), code, want, out, errs)
		}
	}
}
