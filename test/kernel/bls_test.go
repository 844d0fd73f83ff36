package kernel

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/test/loader"
)

// The files of a machine with entries of the Boot Loader Specification.
const (
	blsEntries = "boot/loader/entries/"
	blsBlock   = "boot/grub2/grubenv"
	blsOptions = "root=/dev/vda1 ro console=ttyS0 panic=-1 quiet"
)

// blsEntry returns the file of a kernel's entry.
func blsEntry(version string) string { return blsEntries + "rhel-" + version + ".conf" }

// blsFiles returns the files of debianFiles, but with the configuration of Red Hat's GRUB in place of Debian's, and with
// the entry of the first kernel.
func blsFiles(t *testing.T, k Kernel) map[string][]byte {
	t.Helper()
	files := debianFiles(t, k)
	for _, name := range []string{grubConfig, grubEnvironment, "etc/default/grub"} {
		delete(files, name)
	}
	archive, err := txtar.ParseFile("../../internal/linux/bootargs/testdata/rhel-bls.txtar")
	must(t, err)
	for _, f := range archive.Files {
		if f.Name == "boot/grub2/grub.cfg" {
			files[f.Name] = []byte(strings.Replace(string(f.Data), "insmod blscfg\n", "", 1))
		}
	}
	files[blsBlock] = []byte(loader.Block("# GRUB Environment Block\nsaved_entry=rhel-" + firstKernel + "\n"))
	files[blsEntry(firstKernel)] = fmt.Appendf(nil, "title Linux (%[1]s)\nversion %[1]s\nlinux /boot/vmlinuz-%[1]s\noptions %[2]s\n", firstKernel, blsOptions)
	files["etc/kernel/cmdline"] = []byte(blsOptions + "\n")
	return files
}

// updatesOfBLS takes a machine through trial boots while kernels come: one between the apply and the trial, and one after
// the commit. As on Red Hat's systems, a new kernel has the arguments of /etc/kernel/cmdline, and boots by default. The
// shipped program runs in the machine. The power fails right after the commit, and right after the rollback: both count.
func updatesOfBLS(t *testing.T) {
	kernels := requireAll(t)
	machine, err := NewBLS(t.Context(), blsFiles(t, kernels["own"]), t.TempDir(), os.Stderr)
	must(t, err)
	d := &debianHost{t: t, loader: machine}
	defer func() { t.Logf("what booted:\n%s", strings.Join(d.booted, "\n")) }()
	const (
		apply    = "berth tune apply right && berth tune commit"
		ok       = "berth tune verify"
		rollback = "berth tune rollback"
		// keep keeps the entries without the profile's argument, and usual checks that these are the entries again.
		keep  = "mkdir -p /var/before && cp /" + blsEntries + "rhel-* /etc/kernel/cmdline /var/before && sed -i 's/ skew_tick=1//' /var/before/*"
		usual = "diff -r /var/before /" + blsEntries + " >/tmp/differ; [ \"$(cat /tmp/differ)\" = 'Only in /var/before: cmdline' ] && cmp /var/before/cmdline /etc/kernel/cmdline && ! grep berth /" + blsBlock
	)
	install := func(from, version string) string {
		return fmt.Sprintf("cp /boot/vmlinuz-%[1]s /boot/vmlinuz-%[2]s && sed \"s/%[1]s/%[2]s/; s|^options.*|options $(cat /etc/kernel/cmdline)|\" /%[3]s >/%[4]s && grub-editenv /%[5]s set saved_entry=rhel-%[2]s",
			from, version, blsEntry(from), blsEntry(version), blsBlock)
	}
	// copied checks that the rollback names the entry of a kernel that copied the argument, and removes it there by hand.
	copied := func(version string) string {
		return fmt.Sprintf("berth tune rollback >/tmp/said 2>&1; [ $? = 4 ] && grep 'rhel-%[1]s.conf.*skew_tick=1' /tmp/said && sed -i 's/ skew_tick=1//' /%[2]s && sync", version, blsEntry(version))
	}

	d.boot("before", firstKernel, false, keep, apply, install(firstKernel, secondKernel), keep,
		"berth tune verify 2>&1 | tee /tmp/said; grep -w pendingReboot /tmp/said && grep 'vmlinuz-"+secondKernel+" was installed since' /tmp/said")
	d.boot("a trial, after a kernel update", firstKernel, true, ok)
	d.boot("the boot after it, not committed", secondKernel, false, rollback, usual, apply)
	d.boot("a trial of the new kernel", secondKernel, true, "berth tune commit", "cut")
	d.boot("cut off right after the commit", secondKernel, true, ok, install(secondKernel, thirdKernel), keep)
	d.boot("a kernel update after the commit", thirdKernel, true, ok, copied(thirdKernel), rollback, usual, "cut")
	d.boot("cut off right after the rollback", thirdKernel, false, usual)
}
