package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// download downloads packages and the libraries that they depend on into a directory, from the sources of the machine's
// apt, and returns the files.
func download(ctx context.Context, dir string, packages []string) ([]string, error) {
	all, err := closure(ctx, packages)
	if err != nil {
		return nil, err
	}
	if _, err := output(ctx, dir, append([]string{"apt-get", "-q", "download"}, all...)...); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return nil, err
	}
	if len(files) != len(all) {
		return nil, fmt.Errorf("apt-get download: %d files for %d packages", len(files), len(all))
	}
	return files, nil
}

// closure adds the libraries that packages depend on, recursively. It omits other dependencies (a shell, an
// interpreter, a service's start script), because a program in a container does not need them.
func closure(ctx context.Context, packages []string) ([]string, error) {
	all := slices.Clone(packages)
	for next := packages; len(next) > 0; {
		text, err := output(ctx, ".", append([]string{"apt-cache", "show", "--no-all-versions"}, next...)...)
		if err != nil {
			return nil, err
		}
		next = nil
		for _, name := range dependencies(text) {
			if isLibrary(name) && !slices.Contains(all, name) {
				all, next = append(all, name), append(next, name)
			}
		}
	}
	return all, nil
}

// isLibrary recognizes libraries by Debian's naming convention.
func isLibrary(name string) bool {
	return strings.HasPrefix(name, "lib") && !strings.HasPrefix(name, "libperl") && !strings.HasPrefix(name, "libnginx-mod") || name == "zlib1g"
}

// dependencies returns the names after Depends and Pre-Depends in package records; of alternatives, the first.
func dependencies(records []byte) []string {
	var names []string
	lines := bufio.NewScanner(bytes.NewReader(records))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		field, list, _ := strings.Cut(lines.Text(), ":")
		if field != "Depends" && field != "Pre-Depends" {
			continue
		}
		for dependency := range strings.SplitSeq(list, ",") {
			if words := strings.Fields(dependency); len(words) > 0 {
				name, _, _ := strings.Cut(words[0], ":")
				names = append(names, name)
			}
		}
	}
	return names
}

// output runs a program and returns its output. An error contains the standard error.
func output(ctx context.Context, dir string, argv ...string) ([]byte, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &complaint
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, complaint.String())
	}
	return out.Bytes(), nil
}
