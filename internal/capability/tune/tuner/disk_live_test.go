package tuner_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/test/disk"
)

// TestFullDisk: without room for the deadline and the originals, nothing is written. A commit that cannot be recorded
// has no effect, and the rollback needs no room.
func TestFullDisk(t *testing.T) {
	h := newHost(t)
	small := disk.Small(t)
	h.state = filepath.Join(small, "tune")
	before := h.files()
	h.do(func(u *tuner.Tuner) {
		disk.Fill(t, small)
		if r, err := u.Apply(order(confirm, some())); !errors.Is(err, syscall.ENOSPC) || r.Writes != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Fatal(d)
	}
	must(t, os.Remove(filepath.Join(small, "ballast")))
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
	h.do(func(u *tuner.Tuner) {
		disk.Fill(t, small)
		if err := u.Commit(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("commit: %v", err)
		}
	})
	if a, is, err := tuner.Load(h.state); !is || err != nil || a.Phase != tuner.Trial {
		t.Errorf("%+v, %v", a, err)
	}
	h.boottime += confirm
	h.do(func(u *tuner.Tuner) {
		for file, o := range outcomes(u.Rollback()) {
			if o != apply.OutcomeRestored {
				t.Errorf("%s: %s", file, o)
			}
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	if _, is, _ := tuner.Load(h.state); is {
		t.Error("a record is left")
	}
}

// TestRollbackOnAFullDisk: a rollback that leaves another program's value stays on record as being undone. That record
// needs no disk space, and it forgets the profile that was committed in an earlier boot.
func TestRollbackOnAFullDisk(t *testing.T) {
	h := newHost(t)
	small := disk.Small(t)
	h.state = filepath.Join(small, "tune")
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(0, map[string]string{autogroup: "0"})); must(t, err) })
	h.write(autogroup, "1")
	h.boot = "another"
	before, _ := h.applies(confirm, "", "")
	if a, _, err := tuner.Load(h.state); a.Former == nil || err != nil {
		t.Fatalf("on record: %+v, %v", a, err)
	}
	h.write(slice, "7") // another program's value
	disk.Fill(t, small)
	for range 2 {
		h.do(func(u *tuner.Tuner) { u.Rollback() })
		if a, is, err := tuner.Load(h.state); !is || err != nil || a.Phase != tuner.Undoing || a.Former != nil {
			t.Errorf("on record: %s, remembers %v, %v", a.Phase, a.Former, err)
		}
	}
	must(t, os.Remove(filepath.Join(small, "ballast")))
	h.do(func(u *tuner.Tuner) {
		if err := u.Commit(); !errors.Is(err, tuner.ErrLeft) {
			t.Errorf("commit: %v, want %v", err, tuner.ErrLeft)
		}
	})
	h.write(slice, before[slice])
	h.do(func(u *tuner.Tuner) {
		if a, is := u.Applied(); is {
			t.Errorf("on record still: %+v", a)
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestFullBootAtCommit: a commit of boot arguments that finds no room in /boot leaves every file as it was, and the next
// boot is the old one. With one page of room GRUB's menu does not fit, because update-grub writes it twice, and neither
// does the second entry of the Boot Loader Specification, after the first. Once there is room, the commit succeeds in the
// same boot. The end of the trial needs no room.
func TestFullBootAtCommit(t *testing.T) {
	for name, files := range map[string][]string{ // the file that finds no room, by the pages of room
		"debian-grub": {"grub.cfg", "grub.cfg"},
		"rhel-bls":    {"4a6b-5.14.0-362.el9.x86_64.conf", secondEntry},
	} {
		for pages, file := range files {
			for _, room := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s with %d pages, later room %v", name, pages, room), func(t *testing.T) {
					fullBoot(t, newMachine(t, name), pages, file, room)
				})
			}
		}
	}
}

// secondEntry is an entry that takes two pages.
const secondEntry = "4a6b-5.14.0-400.el9.x86_64.conf"

func fullBoot(t *testing.T, m *machine, pages int, file string, room bool) {
	small := disk.Small(t)
	if m.loader == "rhel-bls" {
		m.write("/boot/loader/entries/"+secondEntry,
			"title RHEL\nlinux /vmlinuz-5.14.0-400.el9.x86_64\noptions ro\n#"+strings.Repeat("x", os.Getpagesize())+"\n")
	}
	m.bootOn(small)
	m.generate = m.twice
	before := m.disk()
	m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(false)); must(t, err); must(t, u.Commit()) })
	m.reboots()
	m.do(func(*tuner.Tuner) {})
	m.expect("on trial", "ok")

	ballast := disk.FillBut(t, small, pages)
	full := m.files()
	m.do(func(u *tuner.Tuner) {
		if err := u.Commit(); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, tuner.ErrLeft) || !strings.Contains(err.Error(), file) {
			t.Errorf("commit: %v, want no room for %s", err, file)
		}
		if a, is := u.Applied(); !is || a.Phase != tuner.Committed || a.Args.Stage != tuner.OnTrial {
			t.Errorf("on record: %+v", a)
		}
	})
	if d := cmp.Diff(full, m.files()); d != "" {
		t.Errorf("after the commit that failed (-before +after):\n%s", d)
	}
	m.expect("still on trial", "ok")

	if room {
		must(t, os.Remove(ballast))
		m.do(func(u *tuner.Tuner) { must(t, u.Commit()) })
		m.reboots()
		m.expect("committed", "ok")
		m.do(func(u *tuner.Tuner) { u.Rollback() })
		m.same("rolled back", before)
		return
	}
	m.reboots()
	if bootargs.Booted(m.root.FS(), bootTokens()) {
		t.Error("the boot after the commit that failed has the arguments")
	}
	m.do(func(u *tuner.Tuner) {
		if said := strings.Join(u.Notes(), "\n"); !strings.Contains(said, "the boot for trial was not committed") || strings.Contains(said, "not all of them") {
			t.Errorf("%q", said)
		}
	})
	must(t, os.Remove(ballast))
	m.same("settled", before)
}

// bootOn moves /boot of the machine to another file system, whose directory is small.
func (m *machine) bootOn(small string) {
	m.t.Helper()
	dir := m.plain.Path("boot")
	must(m.t, os.CopyFS(small, os.DirFS(dir)))
	must(m.t, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)))
	must(m.t, syscall.Mount(small, dir, "", syscall.MS_BIND, ""))
	m.t.Cleanup(func() { must(m.t, syscall.Unmount(dir, 0)) })
}

// twice is update-grub as it writes: it makes the menu in a file beside, and copies that.
func (m *machine) twice(file string) error {
	beside := file + ".new"
	if err := m.updateGRUB(beside); err != nil {
		return err
	}
	if err := m.updateGRUB(file); err != nil {
		return err
	}
	return os.Remove(m.plain.Path(beside))
}
