package tuner_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	bootfile "github.com/berth-project/berth/internal/engine/driver/boot"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/test/chance"
	"github.com/berth-project/berth/test/loader"
)

func bootTokens() []string { return []string{"nohz_full=1-3", "skew_tick=1"} }

// The files that a boot itself changes.
const (
	cmdline  = "/proc/cmdline"
	bootID   = "/proc/sys/kernel/random/boot_id"
	grubEnv  = "/boot/grub/grubenv"
	grub2Env = "/boot/grub2/grubenv"
	oneShot  = "/sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
	trialID  = bootargs.TrialID
)

// machine is a host with a boot loader.
type machine struct {
	*host
	loader string
	n      int
	// distribution is the configuration that update-grub makes from the defaults alone.
	distribution string
}

// newMachine returns the machine of the given name from the test data of package bootargs.
func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	m := &machine{host: newHost(t), loader: name}
	for file, text := range loader.Files(t, name) {
		m.write("/"+file, text)
	}
	m.write(bootID, boot)
	m.distribution = m.files()["/"+bootargs.GRUBConfig]
	m.generate = m.updateGRUB
	return m
}

// updateGRUB acts as Debian's update-grub with the one file that Berth adds to its defaults.
func (m *machine) updateGRUB(file string) error {
	part := regexp.MustCompile(`\} (.*)"`).FindStringSubmatch(m.files()["/etc/default/grub.d/zz-berth.cfg"])
	text := m.distribution
	if part != nil {
		text = regexp.MustCompile(`(?m)( quiet)$`).ReplaceAllString(text, "$1 "+part[1])
	}
	return os.WriteFile(m.plain.Path(file), []byte(text), 0o600)
}

// reboots acts as the firmware, the boot loader and the kernel during a boot.
func (m *machine) reboots() {
	m.t.Helper()
	files := m.files()
	args, chosen := "", ""
	if m.loader != "debian-lvm" { // GRUB only reads there
		chosen = loader.End(m.t, m.plain.Dir)
	}
	entry := func(usual string) string {
		if chosen != "" {
			return chosen
		}
		return usual
	}
	options := func(file string) string {
		words := regexp.MustCompile(`(?m)^options(.*)$`).FindAllString(files[file], -1)
		return strings.ReplaceAll(strings.Join(words, ""), "options", "")
	}
	switch m.loader {
	case "debian-grub", "debian-lvm":
		menu := files["/boot/grub/custom.cfg"] + files["/"+bootargs.GRUBConfig]
		id := entry("gnulinux-simple")
		_, rest, is := strings.Cut(menu, "'"+id)
		if !is {
			m.t.Fatalf("no entry %s in %s", id, menu)
		}
		args = "BOOT_IMAGE=" + strings.Fields(rest[strings.Index(rest, "linux\t"):])[1] + regexp.MustCompile(`(?m)linux\t\S+(.*)$`).FindStringSubmatch(rest)[1]
	case "rhel-bls":
		args = "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-5.14.0-362.el9.x86_64" + options("/boot/loader/entries/"+entry("4a6b-5.14.0-362.el9.x86_64")+".conf")
	case "systemd-boot":
		args = options("/efi/loader/entries/" + entry("arch.conf"))
	case "extlinux":
		args = regexp.MustCompile(`append(.*)`).FindStringSubmatch(files["/boot/extlinux/extlinux.conf"])[1]
	}
	m.n++
	m.boot, m.boottime = fmt.Sprintf("boot-%d", m.n), 0
	m.write(bootID, m.boot)
	m.write(cmdline, args+"\n")
	m.write(slice, "2800000")
}

// disk returns the files that a boot does not change.
func (m *machine) disk() map[string]string {
	files := m.files()
	maps.DeleteFunc(files, func(name, _ string) bool {
		return strings.HasPrefix(name, "/proc/") || strings.HasPrefix(name, "/sys/kernel/") || strings.HasPrefix(name, "/sys/devices/")
	})
	for _, env := range []string{grubEnv, grub2Env} { // a boot leaves a line without a value
		if block, err := bootargs.ReadEnv([]byte(files[env])); err == nil {
			if next, _ := block.Get("next_entry"); next == "" {
				data, err := block.With("next_entry", "").Block()
				must(m.t, err)
				files[env] = string(data)
			}
		}
	}
	return files
}

func bootOrder(noTrial bool) tuner.Order {
	o := order(confirm, map[string]string{slice: "6000000"})
	o.Boot, o.NoTrial = bootTokens(), noTrial
	return o
}

// states returns the states of the boot arguments in a verification.
func (m *machine) states() string {
	a, is, err := tuner.Load(m.state)
	must(m.t, err)
	if !is {
		return "none"
	}
	var all []string
	for _, row := range a.Verify(m.root.FS(), tuner.Kernel{}, nil) {
		if row.Knob == "boot" {
			all = append(all, string(row.State))
		}
	}
	return strings.Join(slices.Compact(all), " ")
}

func (m *machine) expect(when, states string) {
	m.t.Helper()
	if got := m.states(); got != states {
		m.t.Errorf("%s: %s, want %s", when, got, states)
	}
}

func (m *machine) same(when string, before map[string]string) {
	m.t.Helper()
	if d := cmp.Diff(before, m.disk()); d != "" {
		m.t.Errorf("%s (-before +after):\n%s", when, d)
	}
}

func withTrial() []string { return []string{"debian-grub", "rhel-bls", "systemd-boot"} }

// TestTrialAndCommit: one boot has the arguments. After a commit in that boot, every boot has them. A rollback restores
// every byte.
func TestTrialAndCommit(t *testing.T) {
	for _, name := range withTrial() {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, name)
			before := m.disk()
			m.do(func(u *tuner.Tuner) {
				r, err := u.Apply(bootOrder(false))
				if err != nil || r.Writes != 3 {
					t.Fatalf("%+v, %v", r, err)
				}
			})
			m.expect("applied", "pendingReboot")
			on := m.disk()
			for file, text := range before {
				if on[file] != text && file != grubEnv && file != grub2Env {
					t.Errorf("%s changed before the trial", file)
				}
			}
			m.do(func(u *tuner.Tuner) {
				must(t, u.Commit())
				if r, err := u.Apply(bootOrder(false)); err != nil || r.Writes != 0 {
					t.Errorf("a second apply: %+v, %v", r, err)
				}
			})
			m.reboots()
			m.expect("on trial", "ok")
			m.do(func(u *tuner.Tuner) {
				o := bootOrder(false)
				o.Boot, o.Confirm, o.Again = nil, 0, true
				if r, err := u.Apply(o); err != nil || r.Writes != 1 {
					t.Errorf("the rest after the boot: %+v, %v", r, err)
				}
				must(t, u.Commit())
				if a, _ := u.Applied(); a.Phase != tuner.Committed || a.Args.Stage != tuner.Permanent {
					t.Errorf("%+v", a)
				}
			})
			after := m.disk()
			for file, text := range after {
				if strings.Contains(file, trialID) || strings.Contains(text, trialID) || strings.Contains(file, "/.berth") || file == "/boot/grub/custom.cfg" {
					t.Errorf("%s is left of the trial: %s", file, text)
				}
			}
			for range 2 {
				m.reboots()
				m.expect("committed", "ok")
				m.do(func(*tuner.Tuner) {})
			}
			m.do(func(u *tuner.Tuner) { u.Rollback() })
			m.same("rolled back", before)
			m.reboots()
			m.expect("rolled back", "none")
			if bootargs.Booted(m.root.FS(), bootTokens()) {
				t.Error("a boot after the rollback has the arguments")
			}
		})
	}
}

// TestTrialWithoutCommit: the boot after an uncommitted trial is the old one and the files are as before. A profile
// that was committed before the trial's boot is applied again without boot arguments.
func TestTrialWithoutCommit(t *testing.T) {
	for _, name := range withTrial() {
		for _, committed := range []bool{true, false} {
			t.Run(fmt.Sprint(name, committed), func(t *testing.T) {
				m := newMachine(t, name)
				before := m.disk()
				m.do(func(u *tuner.Tuner) {
					_, err := u.Apply(bootOrder(false))
					must(t, err)
					if committed {
						must(t, u.Commit())
					}
				})
				m.reboots()
				m.do(func(*tuner.Tuner) {})
				m.expect("on trial", "ok")
				m.reboots()
				if bootargs.Booted(m.root.FS(), bootTokens()) {
					t.Error("two boots have the arguments")
				}
				m.do(func(u *tuner.Tuner) {
					if len(u.Notes()) != 1 || !strings.Contains(u.Notes()[0], "the boot for trial was not committed") {
						t.Errorf("%q", u.Notes())
					}
				})
				m.same("settled", before)
				if !committed {
					m.expect("settled", "none")
					return
				}
				m.expect("settled", "drift")
				m.do(func(u *tuner.Tuner) {
					o := bootOrder(false)
					o.Boot, o.Confirm, o.Again = nil, 0, true
					_, err := u.Apply(o)
					must(t, err)
				})
				m.same("applied again", before)
				m.do(func(u *tuner.Tuner) { u.Rollback(); _, err := u.Apply(bootOrder(false)); must(t, err) })
				m.expect("a trial more", "pendingReboot")
			})
		}
	}
}

// TestBeforeTheTrial: a commit before the boot leaves the trial pending. The deadline ends the trial, and so does
// another program that chooses the next boot entry.
func TestBeforeTheTrial(t *testing.T) {
	for _, name := range withTrial() {
		m := newMachine(t, name)
		before := m.files()
		m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(false)); must(t, err) })
		m.boottime += confirm
		m.do(func(*tuner.Tuner) {})
		if d := cmp.Diff(before, m.files()); d != "" {
			t.Errorf("%s: after the deadline:\n%s", name, d)
		}
	}
	m := newMachine(t, "debian-grub")
	block, err := bootargs.ReadEnv([]byte(m.files()[grubEnv]))
	must(t, err)
	data, err := block.With("next_entry", "memtest").Block()
	must(t, err)
	m.write(grubEnv, string(data))
	before := m.files()
	m.do(func(u *tuner.Tuner) {
		if _, err := u.Apply(bootOrder(false)); !errors.Is(err, tuner.ErrChosen) {
			t.Error(err)
		}
	})
	if d := cmp.Diff(before, m.files()); d != "" {
		t.Error(d)
	}
}

// TestAnotherEntryWasBooted: a boot of another entry neither commits nor ends a pending trial.
func TestAnotherEntryWasBooted(t *testing.T) {
	m := newMachine(t, "rhel-bls")
	m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(false)); must(t, err); must(t, u.Commit()) })
	m.boot, m.boottime = "kexec", 0
	m.write(bootID, m.boot)
	m.do(func(u *tuner.Tuner) {
		if err := u.Commit(); !errors.Is(err, tuner.ErrPending) {
			t.Error(err)
		}
	})
	m.expect("still ahead", "pendingReboot")
	m.reboots()
	m.do(func(u *tuner.Tuner) { must(t, u.Commit()) })
	m.expect("committed", "ok")
}

// TestLoaderCannotEndTheTrial: if the boot loader fails to remove the choice of the trial, the first command in that
// boot removes it. The trial then goes on as usual, to a commit or to the old boot.
func TestLoaderCannotEndTheTrial(t *testing.T) {
	for _, name := range withTrial() {
		for _, commit := range []bool{true, false} {
			m := newMachine(t, name)
			before := m.disk()
			m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(false)); must(t, err); must(t, u.Commit()) })
			armed := m.files()
			m.reboots()
			for _, file := range []string{grubEnv, grub2Env, oneShot} {
				if text, is := armed[file]; is {
					m.write(file, text)
				}
			}
			m.do(func(u *tuner.Tuner) {
				if n := strings.Join(u.Notes(), "\n"); !strings.Contains(n, "did not end the trial") || bootargs.Armed(m.root.FS()) {
					t.Errorf("%s: %q, and the next boot is the trial: %v", name, n, bootargs.Armed(m.root.FS()))
				}
				if commit {
					must(t, u.Commit())
				}
			})
			m.reboots()
			if bootargs.Booted(m.root.FS(), bootTokens()) != commit {
				t.Errorf("%s: the boot after a trial with commit %v", name, commit)
			}
			m.do(func(u *tuner.Tuner) { u.Rollback() })
			m.same(name, before)
		}
	}
}

// TestNoTrial: on a machine that cannot boot an entry once, nothing is written unless the order allows that. The
// deadline then restores the files.
func TestNoTrial(t *testing.T) {
	for _, name := range []string{"debian-lvm", "extlinux", "debian-grub", "systemd-boot"} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, name)
			if name == "debian-lvm" { // the directory goes with the file
				must(t, os.RemoveAll(filepath.Join(m.plain.Dir, "etc/default/grub.d")))
				m.distribution = m.base(newMachine(t, "debian-grub"))
			}
			before := m.files()
			m.do(func(u *tuner.Tuner) {
				if _, err := u.Apply(bootOrder(false)); name == "debian-lvm" || name == "extlinux" {
					if !errors.Is(err, tuner.ErrNoTrial) {
						t.Error(err)
					}
				} else {
					u.Rollback()
				}
			})
			if d := cmp.Diff(before, m.files()); d != "" {
				t.Errorf("refused:\n%s", d)
			}
			m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(true)); must(t, err) })
			m.expect("applied", "pendingReboot")
			m.boottime += confirm
			m.do(func(*tuner.Tuner) {})
			if d := cmp.Diff(before, m.files()); d != "" {
				t.Errorf("after the deadline:\n%s", d)
			}
			if _, err := os.Stat(filepath.Join(m.plain.Dir, "etc/default/grub.d")); (err == nil) != (name == "debian-grub") {
				t.Errorf("grub.d: %v", err)
			}
			disk := m.disk()
			m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(true)); must(t, err) })
			m.reboots()
			m.do(func(*tuner.Tuner) {})
			m.same("booted without a commit", disk)
			m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(true)); must(t, err); must(t, u.Commit()) })
			m.reboots()
			m.expect("booted", "ok")
			m.do(func(u *tuner.Tuner) { u.Rollback() })
			m.same("rolled back", disk)
		})
	}
}

// base copies the GRUB configuration of another machine.
func (m *machine) base(from *machine) string {
	m.write(bootargs.GRUBConfig, from.distribution)
	return from.distribution
}

// TestProfileAgain: a profile that is applied again after a boot leaves its boot arguments alone, also when that apply
// is undone. Another profile is refused.
func TestProfileAgain(t *testing.T) {
	m := newMachine(t, "rhel-bls")
	before := m.disk()
	m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(true)); must(t, err); must(t, u.Commit()) })
	m.reboots()
	after := m.disk()
	m.do(func(u *tuner.Tuner) {
		if _, err := u.Apply(order(confirm, map[string]string{autogroup: "0"})); !errors.Is(err, tuner.ErrApplied) {
			t.Error(err)
		}
		_, err := u.Apply(bootOrder(false))
		must(t, err)
	})
	m.boottime += confirm
	m.do(func(u *tuner.Tuner) {
		if a, is := u.Applied(); !is || a.Phase != tuner.Committed || a.Args.Stage != tuner.Permanent {
			t.Errorf("%+v", a)
		}
	})
	m.same("undone at the deadline", after)
	m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(false)); must(t, err) })
	m.reboots()
	m.do(func(*tuner.Tuner) {})
	m.same("booted before the deadline", after)
	m.do(func(u *tuner.Tuner) { u.Rollback() })
	m.same("rolled back", before)
}

// TestOthersChangeBootFiles: in a file that another program changed, the undo removes single tokens. A removed entry
// needs no undo, and a file of Berth's own that another program changed now belongs to that program.
func TestOthersChangeBootFiles(t *testing.T) {
	const entry = "/boot/loader/entries/4a6b-5.14.0-362.el9.x86_64.conf"
	m := newMachine(t, "rhel-bls")
	m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(true)); must(t, err); must(t, u.Commit()) })
	m.write(entry, strings.Replace(m.files()[entry], " ro ", " ro audit=0 ", 1))
	must(t, os.Remove(filepath.Join(m.plain.Dir, "etc/kernel/cmdline")))
	m.do(func(u *tuner.Tuner) {
		for file, o := range outcomes(u.Rollback()) {
			if want := map[bool]apply.Outcome{true: apply.OutcomeGone, false: apply.OutcomeRestored}[strings.HasPrefix(file, "/etc")]; !strings.HasPrefix(file, "/sys") && o != want {
				t.Errorf("%s: %s", file, o)
			}
		}
	})
	if got := m.files()[entry]; !strings.Contains(got, " ro audit=0 crashkernel=1G-4G:192M rd.lvm.lv=rhel/root $tuned_params nohz_full=2\n") {
		t.Error(got)
	}

	const part = "/etc/default/grub.d/zz-berth.cfg"
	m = newMachine(t, "debian-grub")
	m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(true)); must(t, err); must(t, u.Commit()) })
	m.write(part, m.files()[part]+"GRUB_TIMEOUT=1\n")
	m.do(func(u *tuner.Tuner) {
		if o := outcomes(u.Rollback())[part+"/own nohz_full=1-3 skew_tick=1"]; o != apply.OutcomeDrifted {
			t.Error(o)
		}
		if a, is := u.Applied(); !is || a.Phase != tuner.Undoing {
			t.Errorf("%+v", a)
		}
	})
	if got := m.files()[part]; !strings.Contains(got, "GRUB_TIMEOUT") {
		t.Error("another program's file is gone")
	}
}

// TestBootKilledAtEveryStep: an apply, a commit or a rollback may die at any step. The next command leaves the machine
// either as it was before the profile or as it is with it.
func TestBootKilledAtEveryStep(t *testing.T) {
	t.Parallel() // it waits for the disk
	for _, name := range withTrial() {
		for what, from := range map[string]int{"apply": 0, "commit": 1, "rollback": 2, "no trial": 3} {
			if from == 3 && name != "debian-grub" {
				continue // the files are the files of a commit
			}
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel() // the subtests wait for the disk
				for step := 1; ; step++ {
					m := newMachine(t, name)
					before := m.disk()
					if from == 1 || from == 2 {
						m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(false)); must(t, err); must(t, u.Commit()) })
						m.reboots()
					}
					if from == 2 {
						m.do(func(u *tuner.Tuner) { must(t, u.Commit()) })
					}
					died := m.command(step, func(u *tuner.Tuner) {
						switch from {
						case 1:
							must(t, u.Commit())
						case 2:
							u.Rollback()
						default:
							_, err := u.Apply(bootOrder(from == 3))
							must(t, err)
						}
					})
					if !died {
						if step < 10 {
							t.Errorf("only %d steps", step)
						}
						return
					}
					if step%2 == 0 { // the power failed too
						m.reboots()
					}
					m.do(func(u *tuner.Tuner) {
						if a, is := u.Applied(); is && a.Outlives() {
							u.Rollback()
						}
					})
					m.same(fmt.Sprintf("killed at step %d", step), before)
				}
			})
		}
	}
}

// TestUpdateGRUBFails: a failed update-grub leaves all files as before, and the trial continues.
func TestUpdateGRUBFails(t *testing.T) {
	for name, fails := range map[string]func(m *machine) func(string) error{
		"it ends": func(*machine) func(string) error { return func(string) error { return os.ErrInvalid } },
		"without these": func(m *machine) func(string) error {
			return func(file string) error { m.write(file, m.distribution); return nil }
		},
		"half a file": func(m *machine) func(string) error {
			return func(file string) error { m.write(file, "set default=0\n"); return os.ErrInvalid }
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "debian-grub")
			m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(false)); must(t, err); must(t, u.Commit()) })
			m.reboots()
			before := m.files()
			m.generate = fails(m)
			m.do(func(u *tuner.Tuner) {
				if err := u.Commit(); !errors.Is(err, os.ErrInvalid) && !errors.Is(err, apply.ErrNotEffective) {
					t.Error(err)
				}
				if a, _ := u.Applied(); a.Args.Stage != tuner.OnTrial || a.Phase != tuner.Committed {
					t.Errorf("%+v", a)
				}
			})
			if d := cmp.Diff(before, m.files()); d != "" {
				t.Error(d)
			}
			m.generate = m.updateGRUB
			m.do(func(u *tuner.Tuner) { must(t, u.Commit()) })
		})
	}
}

// TestHalfUndoneBootArguments: while boot arguments of an earlier boot are partly undone, no apply adopts them and no
// commit succeeds.
func TestHalfUndoneBootArguments(t *testing.T) {
	for name, commits := range map[string]bool{"by a rollback": true, "as they were not committed": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "debian-grub")
			before := m.disk()
			m.do(func(u *tuner.Tuner) {
				_, err := u.Apply(bootOrder(true))
				if must(t, err); commits {
					must(t, u.Commit())
				}
			})
			m.reboots()
			m.generate = func(string) error { return os.ErrInvalid }
			if commits {
				m.do(func(u *tuner.Tuner) { u.Rollback() })
			}
			m.do(func(u *tuner.Tuner) {
				if _, err := u.Apply(bootOrder(true)); !errors.Is(err, tuner.ErrLeft) {
					t.Errorf("apply: %v, want %v", err, tuner.ErrLeft)
				}
				if err := u.Commit(); !errors.Is(err, tuner.ErrLeft) {
					t.Errorf("commit: %v, want %v", err, tuner.ErrLeft)
				}
			})
			m.generate = m.updateGRUB
			m.do(func(u *tuner.Tuner) { u.Rollback() })
			m.same("rolled back", before)
		})
	}
}

// TestLastRecordFails: the record of a repeated apply cannot be written. The profile that was committed in an earlier
// boot stays on record, and so do its boot arguments.
func TestLastRecordFails(t *testing.T) {
	m := newMachine(t, "debian-grub")
	m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(true)); must(t, err); must(t, u.Commit()) })
	m.reboots()
	committed := m.files()
	full := filepath.Join(m.state, "applied.new")
	m.step = func(step string) {
		if step == "the originals are journaled" {
			must(t, os.Mkdir(full, 0o700))
		}
	}
	o := bootOrder(false)
	o.Boot, o.Confirm, o.Again = nil, 0, true
	m.do(func(u *tuner.Tuner) {
		if _, err := u.Apply(o); !errors.Is(err, tuner.ErrUndone) {
			t.Errorf("apply: %v, want %v", err, tuner.ErrUndone)
		}
	})
	m.step = nil
	must(t, os.Remove(full))
	if d := cmp.Diff(committed, m.files()); d != "" {
		t.Error(d)
	}
	m.do(func(u *tuner.Tuner) {
		a, is := u.Applied()
		if !is || a.Phase != tuner.Committed || a.Args == nil || a.Args.Stage != tuner.Permanent {
			t.Fatalf("on record: %+v", a)
		}
		_, err := u.Apply(o)
		must(t, err)
	})
}

// TestKernelUpdate: the status reports kernel changes between the apply and the boot.
func TestKernelUpdate(t *testing.T) {
	m := newMachine(t, "rhel-bls")
	m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(false)); must(t, err); must(t, u.Commit()) })
	m.write("/boot/loader/entries/4a6b-5.14.0-400.conf", "title RHEL\nlinux /vmlinuz-5.14.0-400\noptions ro\n")
	a, _, err := tuner.Load(m.state)
	must(t, err)
	said := strings.Join(a.Ahead(m.root.FS()), "\n")
	for _, want := range []string{"the next boot has the boot arguments on trial", "kernel /vmlinuz-5.14.0-400 was installed since", "starts /vmlinuz-5.14.0-362.el9.x86_64"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
	must(t, os.Remove(filepath.Join(m.plain.Dir, "boot/loader/entries/4a6b-5.14.0-362.el9.x86_64.conf")))
	if said := strings.Join(a.Ahead(m.root.FS()), "\n"); !strings.Contains(said, "is gone") {
		t.Error(said)
	}
}

// TestVerifyBootArguments: an argument counts as ignored if the kernel's CPUs differ from it.
func TestVerifyBootArguments(t *testing.T) {
	m := newMachine(t, "rhel-bls")
	m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(true)); must(t, err); must(t, u.Commit()) })
	m.reboots()
	m.write("/sys/devices/system/cpu/nohz_full", "2-3\n")
	m.expect("narrowed", "ignored ok")
	m.write("/sys/devices/system/cpu/nohz_full", " (null)\n")
	m.expect("none", "ignored ok")
	m.write(cmdline, "ro\n")
	m.expect("booted without them", string(tune.Drift))
}

// TestElsewhere: for a directory, no program can make GRUB's configuration. The tuner detects that before it writes
// anything.
func TestElsewhere(t *testing.T) {
	m := newMachine(t, "debian-grub")
	m.generate = nil
	if err := m.host.host().CanBoot(bootTokens(), true); !errors.Is(err, bootfile.ErrElsewhere) {
		t.Error(err)
	}
	if err := m.host.host().CanBoot(bootTokens(), false); err != nil {
		t.Error(err)
	}
}

// TestRandomBoots: a rollback restores every byte after any history of applies, commits, rollbacks and boots, each
// killed between any two steps.
func TestRandomBoots(t *testing.T) {
	t.Parallel() // it waits for the disk
	histories := 40
	if testing.Short() {
		histories = 12
	}
	seed := chance.Seed()
	for part, name := range withTrial() {
		t.Run(fmt.Sprintf("%s seed %d", name, seed), func(t *testing.T) {
			t.Parallel() // the subtests wait for the disk
			random := rand.New(rand.NewPCG(seed, uint64(part)))
			for range histories {
				randomBoots(t, name, random)
			}
		})
	}
}

// randomBoots runs one history on its own machine.
func randomBoots(t *testing.T, name string, random *rand.Rand) {
	m := newMachine(t, name)
	before := m.disk()
	var history []string
	for range 1 + random.IntN(8) {
		fatal := random.IntN(60)
		what := []string{"apply", "apply without a trial", "apply again", "commit", "commit", "rollback", "boot", "boot", "wait"}[random.IntN(9)]
		died := m.command(fatal, func(u *tuner.Tuner) {
			switch what {
			case "apply", "apply without a trial":
				_, _ = u.Apply(bootOrder(what != "apply"))
			case "apply again":
				if a, is := u.Applied(); is && a.Phase == tuner.Committed {
					o := bootOrder(false)
					o.Boot, o.Confirm, o.Again = nil, 0, true
					_, _ = u.Apply(o)
				}
			case "commit":
				_ = u.Commit()
			case "rollback":
				u.Rollback()
			}
		})
		history = append(history, fmt.Sprintf("%s, killed %v at %d", what, died, fatal))
		switch what {
		case "boot":
			m.reboots()
		case "wait":
			m.boottime += confirm
		}
	}
	m.command(0, func(u *tuner.Tuner) { u.Rollback() })
	if d := cmp.Diff(before, m.disk()); d != "" {
		t.Fatalf("%s (-before +after):\n%s", strings.Join(history, "; "), d)
	}
	if _, is, err := tuner.Load(m.state); is || err != nil {
		t.Fatalf("%s: a record is left, %v", strings.Join(history, "; "), err)
	}
}

// leftIn returns the messages about boot arguments that a rollback leaves.
func leftIn(all []apply.Restored) string {
	said := ""
	for _, r := range all {
		if r.Outcome == apply.OutcomeFailed && errors.Is(r.Err, tuner.ErrLeft) {
			said += r.Err.Error() + "\n"
		}
	}
	return said
}

// rehearsed returns what a dry run says that a rollback leaves.
func (m *machine) rehearsed() string {
	m.t.Helper()
	h := m.host.host()
	snapshot, err := journal.Load(m.state, driver.Values())
	must(m.t, err)
	a, _, err := tuner.Load(m.state)
	must(m.t, err)
	entries, _ := snapshot.Of(h.Boot)
	return leftIn(tuner.Compare(h, a, entries))
}

// TestLabelSince: a rollback of extlinux.conf removes the arguments from the labels of the apply. It names a later
// label that has the arguments, and is complete once that label is without them.
func TestLabelSince(t *testing.T) {
	const file = "/boot/extlinux/extlinux.conf"
	m := newMachine(t, "extlinux")
	before := m.files()[file]
	m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(true)); must(t, err); must(t, u.Commit()) })
	const label = "\nlabel l9\n\tlinux /boot/vmlinuz-9\n\tappend ro nohz_full=1-3 skew_tick=1\n"
	m.write(file, m.files()[file]+label)
	said := m.rehearsed()
	for _, when := range []string{"dry run", "rollback", "dry run again", "rollback again"} {
		if !strings.Contains(said, "label l9 of "+file) || !strings.Contains(said, "nohz_full=1-3 skew_tick=1") || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: %q", when, said)
		}
		if said = m.rehearsed(); when != "dry run again" {
			m.do(func(u *tuner.Tuner) { said = leftIn(u.Rollback()) })
			if got := m.files()[file]; got != before+label {
				t.Errorf("%s: %s", when, got)
			}
		}
	}
	m.write(file, before)
	m.do(func(u *tuner.Tuner) { u.Rollback() })
	m.expect("rolled back", "none")
}

// TestKernelSince: entries of kernels that were installed after the apply inherit its arguments. A rollback and a dry
// run name these entries. The rollback is complete once the arguments are removed or are meant to stay. Tokens that an
// entry had before the apply are not reported.
func TestKernelSince(t *testing.T) {
	for name, entries := range map[string]string{"rhel-bls": "/boot/loader/entries/", "systemd-boot": "/efi/loader/entries/"} {
		for _, leave := range []bool{false, true} {
			m := newMachine(t, name)
			m.write(entries+"old.conf", "linux /vmlinuz-old\noptions ro skew_tick=1\n")
			before := m.disk()
			m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(true)); must(t, err); must(t, u.Commit()) })
			m.reboots()
			m.write(entries+"new.conf", "linux /vmlinuz-new\noptions ro nohz_full=1-3 skew_tick=1\n")
			for range 2 {
				dry := m.rehearsed()
				m.do(func(u *tuner.Tuner) {
					if said := leftIn(u.Rollback()); said != dry || !strings.Contains(said, entries+"new.conf") || !strings.Contains(said, "nohz_full=1-3") || strings.Contains(said, "old.conf") {
						t.Errorf("%s: %q, dry run %q", name, said, dry)
					}
					if a, is := u.Applied(); !is || a.Phase != tuner.Undoing {
						t.Errorf("%s: a record %v, %s", name, is, a.Phase)
					}
				})
			}
			h := m.host.host()
			if h.Leave = leave; !leave {
				m.write(entries+"new.conf", "linux /vmlinuz-new\noptions ro\n")
			}
			u, err := tuner.Open(h)
			must(t, err)
			u.Rollback()
			must(t, u.Close())
			m.expect("rolled back", "none")
			must(t, os.Remove(filepath.Join(m.plain.Dir, entries+"new.conf")))
			m.same("rolled back", before)
		}
	}
}

// TestKernelDuringTheTrial: a kernel that was installed during the trial boot inherits the arguments. A boot of that
// kernel is not the trial, and ends it.
func TestKernelDuringTheTrial(t *testing.T) {
	for name, boots := range map[string]struct{ entries, file, text string }{
		"rhel-bls":     {"/boot/loader/entries/", cmdline, "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-9.9 ro nohz_full=1-3 skew_tick=1\n"},
		"systemd-boot": {"/efi/loader/entries/", "/proc/sys/kernel/osrelease", "9.9\n"},
	} {
		m := newMachine(t, name)
		m.do(func(u *tuner.Tuner) { _, err := u.Apply(bootOrder(false)); must(t, err); must(t, u.Commit()) })
		m.reboots()
		m.write(boots.entries+"new.conf", "linux /vmlinuz-9.9\noptions ro nohz_full=1-3 skew_tick=1\n")
		m.do(func(u *tuner.Tuner) {
			if a, _ := u.Applied(); !a.Outlives() {
				t.Errorf("%s: the trial was ended while it ran", name)
			}
		})
		on := m.files()[cmdline]
		m.reboots()
		m.write(cmdline, on)
		m.write(boots.file, boots.text)
		m.do(func(u *tuner.Tuner) {
			if said := strings.Join(u.Notes(), "\n"); !strings.Contains(said, "the boot for trial was not committed") || !strings.Contains(said, "not all of them") {
				t.Errorf("%s: %q", name, said)
			}
			if err := u.Commit(); err == nil {
				t.Errorf("%s: the boot of another kernel was committed", name)
			}
			again := bootOrder(false)
			again.Boot, again.Confirm, again.Again = nil, 0, true
			if _, err := u.Apply(again); err != nil || m.files()[slice] != "6000000" {
				t.Errorf("%s: the settings of what was committed are not set again: %v", name, err)
			}
		})
		if d := m.files()[boots.entries+trialID+".conf"]; d != "" {
			t.Errorf("%s: the entry for trial is left: %s", name, d)
		}
		must(t, os.Remove(filepath.Join(m.plain.Dir, boots.entries+"new.conf")))
		m.do(func(u *tuner.Tuner) { u.Rollback() })
		m.expect("rolled back", "none")
	}
}
