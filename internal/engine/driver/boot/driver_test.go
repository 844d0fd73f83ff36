package boot_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/boot"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/test/loader"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const entry = "boot/loader/entries/a.conf"

// machine is a tree with an applier for its files.
type machine struct {
	t   *testing.T
	dir string
	j   *journal.Journal
	a   *apply.Applier
	// generate is update-grub.
	generate boot.Generate
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	root, err := hostfs.Open(m.dir)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	m.j, err = journal.Open(t.TempDir(), "boot", boot.Values())
	must(t, err)
	t.Cleanup(func() { must(t, m.j.Close()) })
	m.generate = boot.UpdateGRUB(root)
	m.a = apply.New(boot.Kinds(root, func(file string) error { return m.generate(file) }), m.j, apply.Options{})
	return m
}

func (m *machine) write(name, text string, mode fs.FileMode) {
	m.t.Helper()
	file := filepath.Join(m.dir, name)
	must(m.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(m.t, os.WriteFile(file, []byte(text), 0o644))
	must(m.t, os.Chmod(file, mode))
}

func (m *machine) read(name string) string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, name))
	must(m.t, err)
	return string(text)
}

// apply brings a value about.
func (m *machine) apply(at plan.Target, v plan.Value) error {
	m.t.Helper()
	stands := m.a.Read([]plan.Target{at})[0]
	must(m.t, stands.Err)
	return m.a.Apply([]plan.Change{{Setting: plan.Setting{Target: at, ID: stands.ID, Value: v, Owner: "tune"}, From: stands.Value}})[0].Err
}

// undo takes all back, and returns what became of the only entry.
func (m *machine) undo() apply.Outcome {
	m.t.Helper()
	all := m.a.Restore(nil, false)
	if len(all) != 1 {
		m.t.Fatalf("%+v", all)
	}
	return all[0].Outcome
}

func changed(text string) (plan.Target, plan.Value) {
	return boot.FileTarget(bootargs.Changed(entry, text, bootargs.FormEntry, []string{"nohz_full=1"}))
}

// TestReplacedFileKeepsWhatItHas: mode, owner and extended attributes stay, both ways, nothing is left
// beside the file, and a journal of another boot still knows the original.
func TestReplacedFileKeepsWhatItHas(t *testing.T) {
	m := newMachine(t)
	const text = "title \xff\noptions ro\n" // a title may be in any encoding
	m.write(entry, text, 0o640)
	file := filepath.Join(m.dir, entry)
	attributes := unix.Setxattr(file, "user.berth", []byte("kept"), 0) == nil // where the file system has any
	if os.Geteuid() == 0 {
		must(t, os.Chown(file, 7, 8))
	}
	var before syscall.Stat_t
	must(t, syscall.Stat(file, &before))
	check := func(when, want string) {
		t.Helper()
		var now syscall.Stat_t
		must(t, syscall.Stat(file, &now))
		if now.Mode != before.Mode || now.Uid != before.Uid || now.Gid != before.Gid {
			t.Errorf("%s: mode %o, owner %d:%d", when, now.Mode, now.Uid, now.Gid)
		}
		value := make([]byte, 16)
		if n, err := unix.Getxattr(file, "user.berth", value); attributes && (err != nil || string(value[:n]) != "kept") {
			t.Errorf("%s: attribute %q, %v", when, value[:max(n, 0)], err)
		}
		if got := m.read(entry); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
		if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 1 {
			t.Errorf("%s: %v, %v", when, all, err)
		}
	}
	must(t, m.apply(changed(text)))
	check("applied", "title \xff\noptions ro nohz_full=1\n")
	if e := m.j.Entries(); len(e) != 1 || e[0].Lifetime != plan.Persistent {
		t.Errorf("%+v", e)
	}
	m.write("boot/loader/entries/.berth-a.conf", "half", 0o644) // a write that died
	if o := m.undo(); o != apply.OutcomeRestored {
		t.Error(o)
	}
	check("undone", text)
}

// TestLeftBeside: what a write that died left goes also where the file itself is as before.
func TestLeftBeside(t *testing.T) {
	m := newMachine(t)
	m.write(entry, "options ro\n", 0o644)
	at, v := changed("options ro\n")
	must(t, m.a.Record([]plan.Change{{Setting: plan.Setting{Target: at, ID: plan.Identity(at.Object), Value: v, Owner: "tune"}, From: m.a.Read([]plan.Target{at})[0].Value}}))
	m.write("boot/loader/entries/.berth-a.conf", "half", 0o644)
	if o := m.undo(); o != apply.OutcomeAlready {
		t.Error(o)
	}
	if all, err := os.ReadDir(filepath.Join(m.dir, "boot/loader/entries")); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestUndoOfWhatOthersChanged: by token while one of Berth's stands, and nothing where none does.
func TestUndoOfWhatOthersChanged(t *testing.T) {
	for name, test := range map[string]struct {
		now, want string
		outcome   apply.Outcome
	}{
		"an argument more": {"options ro quiet nohz_full=1\n", "options ro quiet\n", apply.OutcomeRestored},
		"taken away":       {"options ro quiet\n", "options ro quiet\n", apply.OutcomeAlready},
		"another value":    {"options ro nohz_full=2\n", "options ro nohz_full=2\n", apply.OutcomeAlready},
	} {
		m := newMachine(t)
		m.write(entry, "options ro\n", 0o644)
		must(t, m.apply(changed("options ro\n")))
		m.write(entry, test.now, 0o644)
		if o := m.undo(); o != test.outcome || m.read(entry) != test.want || len(m.j.Entries()) != 0 {
			t.Errorf("%s: %s, %q, %v", name, o, m.read(entry), m.j.Entries())
		}
	}
}

// TestLinks: the file that a link names is replaced, and the link stays.
func TestLinks(t *testing.T) {
	m := newMachine(t)
	const block = "boot/efi/EFI/redhat/grubenv"
	text := loader.Block("# GRUB Environment Block\nnext_entry=\n")
	m.write(block, text, 0o600)
	must(t, os.MkdirAll(filepath.Join(m.dir, "boot/grub2"), 0o755))
	link := filepath.Join(m.dir, "boot/grub2/grubenv")
	must(t, os.Symlink("../efi/EFI/redhat/grubenv", link))
	must(t, m.apply(boot.NextTarget("boot/grub2/grubenv"), boot.Trial))
	if got := m.read(block); !strings.Contains(got, "next_entry="+bootargs.TrialID+"\n") || len(got) != 1024 {
		t.Errorf("%q", got)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if o := m.undo(); o != apply.OutcomeRestored || m.read(block) != text {
		t.Errorf("%s, %q", o, m.read(block))
	}
	must(t, os.Remove(link))
	must(t, os.Symlink("grubenv", link))
	if err := m.a.Read([]plan.Target{boot.NextTarget("boot/grub2/grubenv")})[0].Err; err == nil {
		t.Error("a link to itself was read")
	}
}

// TestElsewhere: update-grub of this host makes nothing for a directory.
func TestElsewhere(t *testing.T) {
	m := newMachine(t)
	m.write(bootargs.GRUBConfig, "set default=0\n", 0o444)
	if err := m.apply(boot.MenuTarget(bootargs.GRUBConfig, []string{"nohz_full=1"})); !errors.Is(err, boot.ErrElsewhere) {
		t.Error(err)
	}
	if m.read(bootargs.GRUBConfig) != "set default=0\n" {
		t.Error("it was changed")
	}
}

// grubMenu is a configuration of GRUB that boots kernels.
func grubMenu(args string, kernels ...string) string {
	var b strings.Builder
	for _, k := range kernels {
		fmt.Fprintf(&b, "menuentry 'Debian' --class os $menuentry_id_option 'gnulinux-%[1]s' {\n\tlinux\t/%[1]s ro%[2]s\n}\n", k, args)
	}
	return b.String()
}

// TestLinkedMenu: update-grub makes its file beside the one that a link names.
func TestLinkedMenu(t *testing.T) {
	m := newMachine(t)
	const file = "boot/efi/EFI/debian/grub.cfg"
	m.write(file, grubMenu("", "vmlinuz-1"), 0o644)
	must(t, os.MkdirAll(filepath.Join(m.dir, "boot/grub"), 0o755))
	must(t, os.Symlink("../efi/EFI/debian/grub.cfg", filepath.Join(m.dir, bootargs.GRUBConfig)))
	m.generate = func(aside string) error {
		m.write(aside, grubMenu(" nohz_full=1", "vmlinuz-1"), 0o644)
		return nil
	}
	must(t, m.apply(boot.MenuTarget(bootargs.GRUBConfig, []string{"nohz_full=1"})))
	if got := m.read(file); !strings.Contains(got, "nohz_full=1") {
		t.Error(got)
	}
	for _, dir := range []string{"boot/grub", "boot/efi/EFI/debian"} {
		if all, err := os.ReadDir(filepath.Join(m.dir, dir)); err != nil || len(all) != 1 {
			t.Errorf("%s: %v, %v", dir, all, err)
		}
	}
}

// TestMenuWithoutKernels: the configuration that stands is not replaced by one that lacks a kernel
// that is there, or the one that runs; this goes for an undo, too.
func TestMenuWithoutKernels(t *testing.T) {
	const args = " nohz_full=1"
	for name, test := range map[string]struct {
		made []string
		ok   bool
	}{
		"no kernel":                   {nil, false},
		"not the one that is there":   {[]string{"vmlinuz-2"}, false},
		"not the one that runs":       {[]string{"vmlinuz-1"}, false},
		"not the one that was purged": {[]string{"vmlinuz-1", "vmlinuz-2", "vmlinuz-4"}, true},
	} {
		for _, undo := range []bool{false, true} {
			m := newMachine(t)
			made := func(args string, kernels ...string) boot.Generate {
				return func(aside string) error { m.write(aside, grubMenu(args, kernels...), 0o644); return nil }
			}
			all := []string{"vmlinuz-1", "vmlinuz-2", "vmlinuz-3"}
			m.write(bootargs.GRUBConfig, grubMenu("", all...), 0o644)
			m.write("boot/vmlinuz-1", "", 0o644)
			m.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz-2 ro\n", 0o444)
			now, err := "", error(nil)
			if m.generate = made(args, test.made...); undo {
				m.generate = made(args, all...)
			}
			err = m.apply(boot.MenuTarget(bootargs.GRUBConfig, []string{"nohz_full=1"}))
			if undo {
				must(t, err)
				now, m.generate = args, made("", test.made...)
				if o := m.undo(); (o == apply.OutcomeRestored) != test.ok || (len(m.j.Entries()) == 0) != test.ok {
					t.Errorf("%s: the undo: %s, %v", name, o, m.j.Entries())
				}
			} else if (err == nil) != test.ok || err != nil && !errors.Is(err, apply.ErrNotEffective) {
				t.Errorf("%s: %v", name, err)
			}
			if want := grubMenu(now, all...); !test.ok && m.read(bootargs.GRUBConfig) != want {
				t.Errorf("%s, undo %v: the file was replaced by %q", name, undo, m.read(bootargs.GRUBConfig))
			}
			if _, err := os.Stat(filepath.Join(m.dir, "boot/grub/.berth-grub.cfg")); err == nil {
				t.Errorf("%s: a file is left beside it", name)
			}
		}
	}
}

// TestShown: of a file people see its size, not its text.
func TestShown(t *testing.T) {
	m := newMachine(t)
	m.write(entry, "options ro\n", 0o644)
	at, _ := changed("")
	if got := boot.Shown(m.a.Read([]plan.Target{at})[0].Value); got != "11 bytes" {
		t.Error(got)
	}
	if got := boot.Shown(boot.Trial); got != boot.Trial {
		t.Error(got)
	}
}

// TestNotMounted: of a partition that is not mounted it is not known what is gone.
func TestNotMounted(t *testing.T) {
	const variable = "sys/firmware/efi/efivars/LoaderEntryOneShot"
	block := loader.Block("# GRUB Environment Block\n")
	for name, text := range map[string]string{entry: "options ro\n", "boot/grub2/grubenv": block, variable: ""} {
		m := newMachine(t)
		at, v := boot.NextTarget(name), boot.Trial
		if name == entry {
			at, v = changed(text)
		}
		m.write(name, text, 0o644)
		must(t, m.apply(at, v))
		must(t, os.RemoveAll(filepath.Join(m.dir, filepath.Dir(name))))
		if o := m.undo(); o != apply.OutcomeFailed || len(m.j.Entries()) != 1 {
			t.Errorf("%s: %s, %d entries", name, o, len(m.j.Entries()))
		}
	}
}

// TestGoneWithItsKernel: of an entry that is gone nothing is left to put back.
func TestGoneWithItsKernel(t *testing.T) {
	m := newMachine(t)
	m.write(entry, "options ro\n", 0o644)
	must(t, m.apply(changed("options ro\n")))
	must(t, os.Remove(filepath.Join(m.dir, entry)))
	if o := m.undo(); o != apply.OutcomeGone || len(m.j.Entries()) != 0 {
		t.Error(o, m.j.Entries())
	}
}
