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

// QEMU emulates the machines; guests are amd64 on any host.
const QEMU = "qemu-system-x86_64"

// ErrMissing reports that Debian packages are not installed; the message names them.
var ErrMissing = errors.New("missing packages")

// need is a file or a program, and the package that contains it.
type need struct{ file, pkg string }

// bootNeeds returns the requirements of booting a stock kernel.
func bootNeeds() []need {
	return []need{
		{QEMU, "qemu-system-x86"},
		{"gcc", "gcc"},
		{"xz", "xz-utils"},
	}
}

// buildNeeds returns the additional requirements of building a kernel, except its sources.
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

// nodeNeeds returns the additional requirements of a Kubernetes node's root file system.
func nodeNeeds() []need {
	return []need{
		{"/usr/sbin/debootstrap", "debootstrap"},
		{"/usr/sbin/mke2fs", "e2fsprogs"},
	}
}

// clusterNeeds returns the requirements of a Kubernetes cluster on this machine.
func clusterNeeds() []need {
	return []need{
		{"ip", "iproute2"},
		{"nft", "nftables"},
		{"/usr/include/seccomp.h", "libseccomp-dev"},
		{"/usr/share/gocode/src/github.com/seccomp/libseccomp-golang/go.mod", "golang-github-seccomp-libseccomp-golang-dev"},
	}
}

// packageNeeds returns the requirements of the tests of the shipped packages, except dpkg, of the page's tests, and of
// the test of berth top in a terminal.
func packageNeeds() []need {
	return []need{{"rpm", "rpm"}, {"chromium", "chromium"}, {"tmux", "tmux"}}
}

// seedNeeds returns the programs of the documents' experiments, which verify-timing runs.
func seedNeeds() []need {
	return []need{{"apache2", "apache2-bin"}, {"nginx", "nginx"}, {"wrk", "wrk"}}
}

// emulator runs single programs of arm64 on another processor.
const emulator = "qemu-aarch64"

// arm64Needs returns the requirements of the test of the arm64 program, which verify-kernels runs.
func arm64Needs() []need { return []need{{emulator, "qemu-user"}} }

// Missing returns the Debian packages of `make test` that are not installed, as arguments of apt-get install.
func Missing() []string { return absent(bootNeeds(), clusterNeeds(), packageNeeds()) }

// MissingForAll is Missing together with the packages of the verify targets. The kernel sources are the newest
// linux-source package of the release.
func MissingForAll(ctx context.Context) []string {
	return append(missingForNode(ctx), absent(clusterNeeds(), packageNeeds(), seedNeeds(), arm64Needs())...)
}

// missingForNode returns the missing packages of a Kubernetes node in a virtual machine.
func missingForNode(ctx context.Context) []string {
	return append(missing(ctx), absent(nodeNeeds())...)
}

// missing returns the missing packages for building and booting a kernel.
func missing(ctx context.Context) []string {
	missing := absent(bootNeeds(), buildNeeds())
	if _, err := newestSource(); err != nil {
		missing = append(missing, sourcePackage(ctx))
	}
	return missing
}

// absent returns the packages of missing requirements.
func absent(all ...[]need) []string {
	var packages []string
	for _, n := range slices.Concat(all...) {
		if !present(n.file) {
			packages = append(packages, n.pkg)
		}
	}
	return packages
}

// checkPackages returns ErrMissing with the command that installs the missing packages.
func checkPackages(ctx context.Context) error { return toInstall(missing(ctx)) }

// checkBoot is checkPackages for a stock kernel.
func checkBoot() error { return toInstall(absent(bootNeeds())) }

// CheckNode returns ErrMissing with the command that installs the missing packages of a Kubernetes node in a virtual
// machine.
func CheckNode(ctx context.Context) error { return toInstall(missingForNode(ctx)) }

func toInstall(missing []string) error {
	if len(missing) > 0 {
		return fmt.Errorf("%w: apt-get install -y %s", ErrMissing, strings.Join(missing, " "))
	}
	return nil
}

// present searches for a program in PATH and for anything else in the file system; a header may also be in a directory
// of its architecture.
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

// sourcePackage returns the newest linux-source package that apt knows.
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
