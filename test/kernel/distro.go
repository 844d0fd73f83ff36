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

// Distro returns the stock kernel of the distribution: the image out of the package that
// the cloud (Debian) or virtual (Ubuntu) kernel depends on, downloaded and not installed.
// Its modules stay in the package: with an initramfs and serial ports, none is needed.
func Distro(ctx context.Context, log io.Writer) (Kernel, error) {
	name, err := stockPackage(ctx)
	if err != nil {
		return Kernel{}, err
	}
	version, err := candidate(ctx, name)
	if err != nil {
		return Kernel{}, err
	}
	image, err := cached(name+"_"+version, func(dir string) error {
		fmt.Fprintf(log, "%s: apt-get download\n", name)
		return fetch(ctx, name, dir)
	})
	return Kernel{Series: series(name), Image: image}, err
}

// stockPackage follows a meta package to the package that holds the image.
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

// fetch downloads the package into dir and leaves the image there as bzImage.
func fetch(ctx context.Context, name, dir string) error {
	get := exec.CommandContext(ctx, "apt-get", "download", "-q", name)
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

// extract copies the one /boot/vmlinuz-… of a package to a file.
func extract(ctx context.Context, deb, image string) error {
	ctx, cancel := context.WithCancel(ctx) // Ends dpkg-deb, which has more to say.
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
