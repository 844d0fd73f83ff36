package kernel

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-project/berth/test/loader"
)

// debianHost is a machine that runs the shipped program, from a disk that keeps what the system writes.
type debianHost struct {
	t *testing.T
	// loader boots the machine once, and runs the commands.
	loader interface {
		Boot(ctx context.Context, commands ...string) (console string, err error)
	}
	// booted has a line for each boot.
	booted []string
}

// The kernels of that machine: each is newer than the one before.
const (
	firstKernel  = "6.12.1-amd64"
	secondKernel = "6.12.2-amd64"
	thirdKernel  = "6.12.3-amd64"
)

// debianFiles returns the files of the machine beyond Debian's: the settings of grub for a serial console, profiles, and
// a menu and an empty environment block as an installer leaves them before the first update-grub.
func debianFiles(t *testing.T, k Kernel) map[string][]byte {
	t.Helper()
	files := map[string][]byte{
		"boot/vmlinuz-" + firstKernel: []byte(read(t, k.Image)),
		grubEnvironment:               []byte(loader.Block("# GRUB Environment Block\n")),
		"boot/grub/grub.cfg":          []byte("linux /boot/vmlinuz-" + firstKernel + " root=/dev/vda1 ro console=ttyS0 panic=-1\nboot\n"),
		"etc/default/grub": []byte(`GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="console=ttyS0 panic=-1"
GRUB_TERMINAL=console
GRUB_GFXPAYLOAD_LINUX=text
`),
	}
	for name, arguments := range map[string]string{"right": `"skew_tick=1"`, "crash": `"skew_tick=1", "init=/none"`} {
		files["etc/berth/profiles/"+name+".yaml"] = []byte("apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: " + name + "}\nspec:\n  boot: [" + arguments + "]\n")
	}
	dir := t.TempDir()
	for name, pkg := range map[string]string{"sbin/init": "./test/kernel/cmdline", "usr/bin/berth": "./cmd/berth"} {
		made := filepath.Join(dir, "program")
		must(t, Compile(t.Context(), moduleRoot(t), made, "build", pkg))
		files[name] = []byte(read(t, made))
	}
	return files
}

// hook returns the command with which a kernel's package has the boot loader configured, after it has come or gone.
func hook(event, version string) string {
	mode := map[string]string{"postinst": "configure", "postrm": "remove"}[event]
	return fmt.Sprintf(`DEB_MAINT_PARAMS="'%s' ''" run-parts --exit-on-error --arg=%s --arg=/boot/vmlinuz-%s /etc/kernel/%s.d`, mode, version, version, event)
}

// boot boots once and runs the commands, all of which have to succeed. It checks which kernel came up, "" for a panic,
// and whether it had the profile's argument.
func (d *debianHost) boot(what, kernel string, with bool, commands ...string) {
	d.t.Helper()
	said, err := d.loader.Boot(d.t.Context(), commands...)
	must(d.t, err)
	said = strings.ReplaceAll(said, "\r", "")
	line, kernelUp, has := "a panic", "", false
	if args := regexp.MustCompile(bootedWith + `BOOT_IMAGE=/boot/vmlinuz-(\S+)(.*)`).FindStringSubmatch(said); args != nil {
		line, kernelUp, has = args[1]+args[2], args[1], strings.Contains(args[2], " skew_tick=1")
	} else if !strings.Contains(said, "Kernel panic") {
		d.t.Fatalf("neither up nor a panic: %s", said)
	}
	d.booted = append(d.booted, fmt.Sprintf("boot %2d: %-34s %s", len(d.booted)+1, what+":", line))
	_, output, _ := strings.Cut(said, bootedWith)
	d.t.Logf("%s\n%s", d.booted[len(d.booted)-1], output)
	if kernelUp != kernel || has != with {
		d.t.Fatalf("%s: kernel %q, with the argument %v; want %q, %v", what, kernelUp, has, kernel, with)
	}
	if strings.Contains(output, "\nfailed: ") {
		d.t.Fatalf("%s: a command failed", what)
	}
}

// TestUpdateGRUB takes a machine through trial boots whose GRUB is configured by Debian's own update-grub, and whose
// kernels come and go with the hooks of that package. The shipped program runs in the machine. Trials end with a panic,
// with a power cut, and with a commit; a kernel is installed before the trial, and after the commit. The power also
// fails right after a commit, which then counts.
func TestUpdateGRUB(t *testing.T) {
	kernels := requireAll(t)
	debian, err := NewDebian(t.Context(), debianFiles(t, kernels["own"]), t.TempDir(), os.Stderr)
	must(t, err)
	d := &debianHost{t: t, loader: debian}
	defer func() { t.Logf("what booted:\n%s", strings.Join(d.booted, "\n")) }()
	const (
		apply    = "berth tune apply right && berth tune commit"
		pending  = "berth tune verify | grep -w pendingReboot"
		ok       = "berth tune verify"
		rollback = "berth tune rollback"
		// usual checks that nothing of Berth is left, and that the menu is the one that update-grub makes.
		usual = "! grep -rls -e berth -e skew_tick /boot/grub/grub.cfg /boot/grub/custom.cfg /boot/grub/grubenv /etc/default && update-grub -o /tmp/menu && cmp /tmp/menu /boot/grub/grub.cfg"
		// refused checks that a commit fails, and leaves the menu, if the entries that update-grub makes lack the argument: a
		// later file resets it.
		refused = "echo GRUB_CMDLINE_LINUX_DEFAULT=quiet >/etc/default/grub.d/zzz.cfg && ! berth tune commit && ! grep skew_tick /boot/grub/grub.cfg && rm /etc/default/grub.d/zzz.cfg"
	)
	install := func(from, version string) string {
		return fmt.Sprintf("cp /boot/vmlinuz-%s /boot/vmlinuz-%s && %s", from, version, hook("postinst", version))
	}

	d.boot("the installer's menu", firstKernel, false, "update-grub", "berth tune plan right")
	d.boot("before", firstKernel, false, "berth tune apply crash && berth tune commit", pending)
	d.boot("a trial that panics", "", false)
	d.boot("the boot after it", firstKernel, false, rollback, usual, apply)
	d.boot("a trial, cut off", firstKernel, true, "cut")
	d.boot("the boot after it", firstKernel, false, rollback, usual, apply, install(firstKernel, secondKernel), pending)
	d.boot("a trial, after a kernel update", firstKernel, true, ok)
	d.boot("the boot after it, not committed", secondKernel, false, rollback, usual, apply)
	d.boot("a trial of the new kernel", secondKernel, true, refused, "berth tune commit", ok)
	d.boot("which was committed", secondKernel, true, ok, install(secondKernel, thirdKernel))
	d.boot("a kernel update after the commit", thirdKernel, true, ok, rollback, usual)
	d.boot("rolled back", thirdKernel, false, apply, "rm /boot/vmlinuz-"+thirdKernel, hook("postrm", thirdKernel))
	d.boot("the trial's kernel was removed", secondKernel, false, rollback, usual)
	d.boot("rolled back", secondKernel, false, usual, apply)
	d.boot("a trial", secondKernel, true, "berth tune commit", "cut")
	d.boot("cut off right after the commit", secondKernel, true, ok, rollback, usual)
	d.boot("rolled back", secondKernel, false)
}
