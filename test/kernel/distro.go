package kernel

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The stock kernel that the tests boot, pinned so that two runs of one commit boot the same kernel.
const (
	pinnedName    = "linux-image-6.1.0-57-cloud-amd64"
	pinnedVersion = "6.1.192-3"
)

// Distro returns the stock kernel of the distribution: the image from a package that it downloads and does not install.
// Its modules stay in the package, because a boot with an initramfs and serial ports needs none. A mirror drops a
// version some time after the next release, and Ubuntu never had it. Distro then uses the newest version, and logs
// that.
func Distro(ctx context.Context, log io.Writer) (Kernel, error) {
	name, version := pinnedName, pinnedVersion
	if !isCached(name, version) {
		if there, err := candidate(ctx, name); err != nil || there != version {
			if name, version, err = newest(ctx); err != nil {
				return Kernel{}, err
			}
			fmt.Fprintf(log, "WARNING: the package sources have no %s %s: taking %s %s\n", pinnedName, pinnedVersion, name, version)
		}
	}
	image, err := cached(name+"_"+version, func(dir string) error {
		fmt.Fprintf(log, "%s %s: apt-get download\n", name, version)
		return fetch(ctx, name, version, dir)
	})
	return Kernel{Series: series(name), Image: image}, err
}

// newest returns the package and version that the cloud (Debian) or virtual (Ubuntu) kernel depends on.
func newest(ctx context.Context) (name, version string, err error) {
	if name, err = stockPackage(ctx); err != nil {
		return "", "", err
	}
	version, err = candidate(ctx, name)
	return name, version, err
}

// ErrOld reports that the package sources have a newer stock kernel than the one that the tests boot.
var ErrOld = errors.New("not the newest stock kernel")

// IsNewest returns ErrOld, with the newest kernel, if the tests boot another kernel.
func IsNewest(ctx context.Context) error {
	name, version, err := newest(ctx)
	if err != nil {
		return err
	}
	if name != pinnedName || version != pinnedVersion {
		return fmt.Errorf("%w: %s %s: it is %s %s now", ErrOld, pinnedName, pinnedVersion, name, version)
	}
	return nil
}

// stockPackage follows a meta package to the package with the image.
func stockPackage(ctx context.Context) (string, error) {
	var failures error
	for _, meta := range []string{"linux-image-cloud-amd64", "linux-image-virtual"} {
		out, err := exec.CommandContext(ctx, "apt-cache", "depends", meta).Output()
		if err != nil {
			failures = errors.Join(failures, fmt.Errorf("apt-cache depends %s: %w", meta, err))
			continue
		}
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "linux-image-") && len(numbers(word)) > 2 {
				return word, nil
			}
		}
	}
	return "", fmt.Errorf("no stock kernel package (run apt-get update): %w", failures)
}

// candidate returns the version that apt would install.
func candidate(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "policy", name).Output()
	if err != nil {
		return "", fmt.Errorf("apt-cache policy %s: %w", name, err)
	}
	_, after, _ := strings.Cut(string(out), "Candidate: ")
	version, _, found := strings.Cut(after, "\n")
	if !found || version == "(none)" {
		return "", fmt.Errorf("apt-cache policy %s: no candidate", name)
	}
	return version, nil
}

// fetch downloads the package into dir and extracts the image as bzImage.
func fetch(ctx context.Context, name, version, dir string) error {
	get := exec.CommandContext(ctx, "apt-get", "download", "-q", name+"="+version)
	get.Dir = dir
	if out, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download %s: %w\n%s", name, err, out)
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return fmt.Errorf("look for %s: %w", name, err)
	}
	if len(debs) != 1 {
		return fmt.Errorf("apt-get download %s: left %d packages, not 1", name, len(debs))
	}
	if err := extract(ctx, debs[0], filepath.Join(dir, "bzImage")); err != nil {
		return err
	}
	return os.Remove(debs[0])
}

// extract copies the only /boot/vmlinuz-… of a package to a file.
func extract(ctx context.Context, deb, image string) error {
	ctx, cancel := context.WithCancel(ctx) // Ends dpkg-deb, which writes more.
	defer cancel()
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("dpkg-deb: %w", err)
	}
	archive := tar.NewReader(pipe)
	for {
		head, err := archive.Next()
		if err != nil {
			return errors.Join(fmt.Errorf("no /boot/vmlinuz in %s: %w", deb, err), cmd.Wait())
		}
		if strings.HasPrefix(strings.TrimPrefix(head.Name, "./"), "boot/vmlinuz") {
			err := copyTo(image, archive)
			cancel()
			_ = cmd.Wait() // Killed on purpose.
			return err
		}
	}
}

func copyTo(name string, from io.Reader) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
