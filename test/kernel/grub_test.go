package kernel

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/test/loader"
)

// loaded is a machine with a boot loader, whose files Berth sees.
type loaded struct {
	t *testing.T
	// loader boots the machine once.
	loader interface {
		Boot(ctx context.Context) (console string, err error)
	}
	root *hostfs.Root
	// usual is GRUB's configuration without arguments of Berth.
	usual string
	// kernels makes the files of a loader that has these kernels, the newest first, as an update of the system does.
	kernels func(versions ...string)
	boots   int
}

// The kernels of a machine with GRUB: the recorded one, and one that an update brings.
const (
	recordedKernel = "6.1.0-18-amd64"
	updatedKernel  = "6.1.0-56-amd64"
)

const grubConfig = "boot/grub/grub.cfg"

// newLoaded returns a recorded host of package bootargs, and an initramfs that prints the kernel's arguments. A test
// boots it up to fourteen times.
func newLoaded(t *testing.T, name string) (m *loaded, kernels map[string]Kernel, initramfs string) {
	t.Helper()
	kernels = requireAll(t)
	tree := t.TempDir()
	root, err := hostfs.Open(tree)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	m = &loaded{t: t, root: root}
	for file, text := range loader.Files(t, name) {
		m.write(file, text)
	}
	guest, err := NewGuest(t.Context(), moduleRoot(t), t.TempDir())
	must(t, err)
	must(t, guest.Program(t.Context(), "/cmdline", "./test/kernel/cmdline"))
	image, err := guest.Close()
	must(t, err)
	return m, kernels, read(t, image)
}

// TestGRUB takes machines with Debian's GRUB through trial boots: one that starts it by the BIOS, and one with UEFI
// firmware. A failed trial must fall back to the usual boot.
func TestGRUB(t *testing.T) {
	type newLoader func(ctx context.Context, tree, dir string, log io.Writer) (*GRUB, error)
	for name, boots := range map[string]struct {
		origin string // origin of a kernel that this GRUB can start
		by     newLoader
	}{
		"bios": {"own", NewGRUB},
		"uefi": {"distro", NewGRUBOfUEFI},
	} {
		t.Run(name, func(t *testing.T) {
			m, kernels, initramfs := newLoaded(t, "debian-grub")
			recorded := "set timeout=0\n" + strings.NewReplacer(
				"nohz_full=3 quiet", "panic=-1 rdinit=/cmdline quiet",
				"\tload_video\n", "", "\tsearch --no-floppy --fs-uuid --set=root 1\n", "", // saves ten seconds
			).Replace(read(t, m.root.Join(grubConfig)))
			const begin, end = "### BEGIN /etc/grub.d/10_linux ###\n", "### END /etc/grub.d/10_linux ###\n"
			before, rest, _ := strings.Cut(recorded, begin)
			entries, after, _ := strings.Cut(rest, end)
			m.kernels = func(versions ...string) {
				m.remove("boot", "vmlinuz-*", "initrd.img-*")
				menus := ""
				for _, version := range versions {
					menus += strings.ReplaceAll(entries, recordedKernel, version)
					m.write("boot/vmlinuz-"+version, read(t, kernels[boots.origin].Image))
					m.write("boot/initrd.img-"+version, initramfs)
				}
				m.usual = before + begin + menus + end + after
				must(t, m.updateGRUB(grubConfig))
			}
			m.kernels(recordedKernel)
			var err error
			m.loader, err = boots.by(t.Context(), m.root.Path(), t.TempDir(), os.Stderr)
			must(t, err)
			m.trials(grubConfig, "boot/grub/custom.cfg", "etc/default/grub.d/zz-berth.cfg")
			m.updates()
		})
	}
}

// specified is a GRUB that boots entries of the Boot Loader Specification.
type specified struct {
	*GRUB
	m *loaded
}

// Boot defines the command blscfg. GRUB itself executes everything else, first of all what Fedora's configuration does
// with the environment block.
func (s specified) Boot(ctx context.Context) (string, error) {
	menu, err := menuOf(s.m.root.Join("boot/loader/entries"), "/boot/initramfs.img")
	if err != nil {
		return "", err
	}
	s.m.write(grubConfig, menu)
	defer os.Remove(s.m.root.Join(grubConfig)) // Berth sees a host of Red Hat's
	return s.GRUB.Boot(ctx)
}

// TestBLS takes machines with entries of the Boot Loader Specification, and the configuration of Red Hat's GRUB, through
// trial boots. Debian's GRUB boots them, and the test does the part of the command blscfg.
func TestBLS(t *testing.T) {
	t.Run("trials", trialsOfBLS)
	t.Run("updates", updatesOfBLS)
}

func trialsOfBLS(t *testing.T) {
	m, kernels, initramfs := newLoaded(t, "rhel-bls")
	const release = "5.14.0-362.el9.x86_64"
	const entries, config, block = "boot/loader/entries/", "boot/grub2/grub.cfg", "boot/grub2/grubenv"
	const recorded, entry = entries + "4a6b-" + release + ".conf", entries + "rhel-" + release + ".conf" // Debian's GRUB takes 4a6b for a number
	m.write(entry, strings.NewReplacer("linux /", "linux /boot/", "ro crash", "ro console=ttyS0 panic=-1 rdinit=/cmdline quiet crash").Replace(read(t, m.root.Join(recorded))))
	m.remove(entries, filepath.Base(recorded))
	m.write(block, strings.Replace(read(t, m.root.Join(block)), "=4a6b", "=rhel", 1))
	m.write(config, strings.Replace(read(t, m.root.Join(config)), "insmod blscfg\n", "", 1))
	m.write("boot/vmlinuz-"+release, read(t, kernels["own"].Image))
	m.write("boot/initramfs.img", initramfs)
	grub, err := NewGRUB(t.Context(), m.root.Path(), t.TempDir(), os.Stderr)
	must(t, err)
	grub.Environment = block
	m.loader = specified{grub, m}
	m.trials(entry, config, "etc/kernel/cmdline", entries+bootargs.TrialID+".conf")
}

// TestSystemdBoot takes a machine with UEFI firmware and systemd-boot through trial boots, with the distribution's
// kernel, which firmware can start.
func TestSystemdBoot(t *testing.T) {
	m, kernels, initramfs := newLoaded(t, "systemd-boot")
	const entry, toCome = "efi/loader/entries/arch.conf", "etc/kernel/cmdline"
	m.write(entry, strings.Replace(read(t, m.root.Join(entry)),
		"options\troot=UUID=3 rw\n", "initrd\t/initramfs.img\noptions\tconsole=ttyS0 panic=-1 rdinit=/cmdline\n", 1))
	m.write("efi/loader/loader.conf", "timeout 0\ndefault arch.conf\n")
	m.write("efi/vmlinuz-linux-6.7.4-arch1-1", read(t, kernels["distro"].Image))
	m.write("efi/initramfs.img", initramfs)
	var err error
	m.loader, err = NewUEFI(t.Context(), m.root.Path(), t.TempDir(), os.Stderr)
	must(t, err)
	m.trials(entry, toCome, "efi/loader/entries/"+bootargs.TrialID+".conf", OneShot)

	// an update replaces the kernel of the trial before it boots
	m.apply("skew_tick=1")
	const updated = "efi/loader/entries/updated.conf"
	m.write("efi/vmlinuz-updated", read(t, kernels["distro"].Image))
	m.write(updated, strings.Replace(read(t, m.root.Join(entry)), "/vmlinuz-linux-6.7.4-arch1-1", "/vmlinuz-updated", 1))
	m.write("efi/loader/loader.conf", "timeout 0\ndefault updated.conf\n")
	m.remove("efi", "vmlinuz-linux*", "loader/entries/arch.conf")
	m.expect("the kernel of the trial was removed: the usual entry", true, false)
	m.command(func(u *tuner.Tuner) error { u.Rollback(); return nil })
	m.expect("rolled back", true, false)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

func (m *loaded) write(name, text string) {
	m.t.Helper()
	file := m.root.Join(name)
	must(m.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(m.t, os.WriteFile(file, []byte(text), 0o644))
}

// remove removes the files of a directory that match a pattern.
func (m *loaded) remove(dir string, patterns ...string) {
	m.t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(m.root.Join(dir), pattern))
		must(m.t, err)
		for _, file := range files {
			must(m.t, os.Remove(file))
		}
	}
}

// boot boots once, and reports whether the kernel reached its first program, and whether it had the argument.
func (m *loaded) boot(argument string) (up, with bool) {
	m.t.Helper()
	said, err := m.loader.Boot(m.t.Context())
	must(m.t, err)
	m.boots++
	m.write("proc/sys/kernel/random/boot_id", fmt.Sprintf("boot-%d\n", m.boots))
	args := regexp.MustCompile(bootedWith + `([^\r\n]*)`).FindStringSubmatch(said)
	if args == nil {
		if !strings.Contains(said, "Kernel panic") {
			m.t.Fatalf("neither up nor a panic: %s", said)
		}
		m.t.Logf("boot %d: the kernel panics", m.boots)
		return false, false
	}
	m.write("proc/cmdline", args[1]+"\n")
	m.t.Logf("boot %d: /proc/cmdline: %s", m.boots, args[1])
	return true, strings.Contains(args[1], " "+argument)
}

// expect boots once and checks the result.
func (m *loaded) expect(when string, up, with bool) {
	m.t.Helper()
	if gotUp, gotWith := m.boot("skew_tick=1"); gotUp != up || gotWith != with {
		m.t.Fatalf("%s: up %v, with the argument %v", when, gotUp, gotWith)
	}
	m.t.Log(when)
}

// command runs a command of berth tune.
func (m *loaded) command(f func(*tuner.Tuner) error) {
	m.t.Helper()
	u, err := tuner.Open(tuner.Host{
		Dir: m.root.Join("var/lib/berth/tune"), Root: m.root, Boot: fmt.Sprintf("boot-%d", m.boots),
		Now: time.Now, Boottime: func() time.Duration { return time.Hour }, Generate: m.updateGRUB,
	})
	must(m.t, err)
	must(m.t, f(u))
	must(m.t, u.Close())
}

// updateGRUB adds the arguments of Berth's file, as update-grub does.
func (m *loaded) updateGRUB(file string) error {
	text := m.usual
	if part, err := os.ReadFile(m.root.Join("etc/default/grub.d/zz-berth.cfg")); err == nil {
		args := regexp.MustCompile(`\} (.*)"`).FindSubmatch(part)
		text = regexp.MustCompile(`(?m)( quiet)$`).ReplaceAllString(text, "$1 "+string(args[1]))
	}
	return os.WriteFile(m.root.Join(file), []byte(text), 0o600)
}

// apply applies boot arguments and commits them for the trial boot.
func (m *loaded) apply(args ...string) {
	m.t.Helper()
	m.command(func(u *tuner.Tuner) error {
		o := tuner.Order{Boot: args, Confirm: time.Minute}
		o.Profile.Name = "trial"
		if _, err := u.Apply(o); err != nil {
			return err
		}
		return u.Commit()
	})
}

// trials makes three trial boots: one that crashes, one that is not committed, and one that is. After the rollback the
// files must be as before.
func (m *loaded) trials(files ...string) {
	m.t.Helper()
	texts := func() map[string]string {
		all := map[string]string{}
		for _, name := range files {
			if text, err := os.ReadFile(m.root.Join(name)); err == nil {
				all[name] = string(text)
			}
		}
		return all
	}
	rollback := func(u *tuner.Tuner) error { u.Rollback(); return nil }
	before := texts()
	m.expect("before", true, false)

	m.apply("skew_tick=1", "rdinit=/none")
	m.expect("the trial panics", false, false)
	m.expect("the boot after it", true, false)
	m.command(rollback)

	m.apply("skew_tick=1")
	m.expect("a trial", true, true)
	m.expect("which was not committed", true, false)
	m.command(rollback)

	m.apply("skew_tick=1")
	m.expect("a trial", true, true)
	m.command(func(u *tuner.Tuner) error { return u.Commit() })
	m.expect("which was committed", true, true)
	m.expect("for good", true, true)

	m.command(rollback)
	if d := cmp.Diff(before, texts()); d != "" {
		m.t.Errorf("(-before +after):\n%s", d)
	}
	m.expect("rolled back", true, false)
}

// updates makes trial boots while kernels come and go: one is installed before the trial boots, and the trial's own
// kernel is removed before it. The machine then comes up by its usual entry.
func (m *loaded) updates() {
	m.t.Helper()
	rollback := func(u *tuner.Tuner) error { u.Rollback(); return nil }
	image := func(when, version string) {
		m.t.Helper()
		if line := read(m.t, m.root.Join("proc/cmdline")); !strings.Contains(line, version) {
			m.t.Fatalf("%s: %s, want kernel %s", when, line, version)
		}
	}
	m.kernels(recordedKernel)
	m.expect("before the update", true, false)
	m.apply("skew_tick=1")
	m.kernels(updatedKernel, recordedKernel)
	m.expect("a trial, after the update of the kernel", true, true)
	image("the trial", recordedKernel)
	m.expect("which was not committed: the new kernel", true, false)
	image("the boot after it", updatedKernel)
	m.command(rollback)

	m.apply("skew_tick=1")
	m.kernels(recordedKernel)
	m.expect("the kernel of the trial was removed: the usual entry", true, false)
	image("the boot without the trial's kernel", recordedKernel)
	m.command(rollback)
	m.expect("rolled back", true, false)
}
