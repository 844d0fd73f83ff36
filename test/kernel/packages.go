package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// QEMU emulates the machines; guests are amd64 whatever the host is.
const QEMU = "qemu-system-x86_64"

// ErrMissing means that Debian packages are not installed; the message names them.
var ErrMissing = errors.New("missing packages")

// need is a file or a program, and the package that brings it.
type need struct{ file, pkg string }

// bootNeeds lists what booting a stock kernel takes.
func bootNeeds() []need {
	return []need{
		{QEMU, "qemu-system-x86"},
		{"gcc", "gcc"},
		{"xz", "xz-utils"},
	}
}

// buildNeeds lists what building a kernel takes besides, its sources aside.
func buildNeeds() []need {
	return []need{
		{"make", "make"},
		{"flex", "flex"},
		{"bison", "bison"},
		{"bc", "bc"},
		{"/usr/include/libelf.h", "libelf-dev"},
		{"/usr/include/openssl/ssl.h", "libssl-dev"},
	}
}

// nodeNeeds lists what the root file system of a Kubernetes node takes besides.
func nodeNeeds() []need {
	return []need{
		{"/usr/sbin/debootstrap", "debootstrap"},
		{"/usr/sbin/mke2fs", "e2fsprogs"},
	}
}

// clusterNeeds lists what a Kubernetes cluster on this machine takes.
func clusterNeeds() []need {
	return []need{
		{"ip", "iproute2"},
		{"nft", "nftables"},
		{"/usr/include/seccomp.h", "libseccomp-dev"},
		{"/usr/share/gocode/src/github.com/seccomp/libseccomp-golang/go.mod", "golang-github-seccomp-libseccomp-golang-dev"},
	}
}

// packageNeeds lists what the tests of the shipped packages take, dpkg is there, and that of
// the page.
func packageNeeds() []need { return []need{{"rpm", "rpm"}, {"chromium", "chromium"}} }

// Missing returns the Debian packages of `make test` that are not installed, in the form that
// apt-get install takes.
func Missing() []string { return absent(bootNeeds(), clusterNeeds(), packageNeeds()) }

// MissingForAll is Missing with those of the verify targets. The kernel sources are the newest
// linux-source package of the release.
func MissingForAll(ctx context.Context) []string {
	return append(missingForNode(ctx), absent(clusterNeeds(), packageNeeds())...)
}

// missingForNode are those of a Kubernetes node in a virtual machine.
func missingForNode(ctx context.Context) []string {
	return append(missing(ctx), absent(nodeNeeds())...)
}

// missing are those that building and booting a kernel takes.
func missing(ctx context.Context) []string {
	missing := absent(bootNeeds(), buildNeeds())
	if _, err := newestSource(); err != nil {
		missing = append(missing, sourcePackage(ctx))
	}
	return missing
}

// absent returns the packages of what is not there.
func absent(all ...[]need) []string {
	var packages []string
	for _, n := range slices.Concat(all...) {
		if !present(n.file) {
			packages = append(packages, n.pkg)
		}
	}
	return packages
}

// checkPackages returns ErrMissing with the line that installs what is missing.
func checkPackages(ctx context.Context) error { return toInstall(missing(ctx)) }

// checkBoot is checkPackages for a stock kernel.
func checkBoot() error { return toInstall(absent(bootNeeds())) }

// CheckNode returns ErrMissing with the line that installs what a Kubernetes node in a
// virtual machine takes.
func CheckNode(ctx context.Context) error { return toInstall(missingForNode(ctx)) }

func toInstall(missing []string) error {
	if len(missing) > 0 {
		return fmt.Errorf("%w: apt-get install -y %s", ErrMissing, strings.Join(missing, " "))
	}
	return nil
}

// present looks a program up in PATH and anything else in the file system; a header may
// also lie in a directory of its architecture.
func present(file string) bool {
	if !filepath.IsAbs(file) {
		_, err := exec.LookPath(file)
		return err == nil
	}
	if _, err := os.Stat(file); err == nil {
		return true
	}
	found, err := filepath.Glob(strings.Replace(file, "/usr/include/", "/usr/include/*/", 1))
	return err == nil && len(found) > 0
}

// sourcePackage names the newest linux-source package that apt knows.
func sourcePackage(ctx context.Context) string {
	const anyVersion = "linux-source-6.12"
	out, err := exec.CommandContext(ctx, "apt-cache", "search", "--names-only", `^linux-source-[0-9.]+$`).Output()
	if err != nil {
		return anyVersion
	}
	newest := ""
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(line, " ")
		if compareVersions(name, newest) > 0 {
			newest = name
		}
	}
	if newest == "" {
		return anyVersion
	}
	return newest
}
