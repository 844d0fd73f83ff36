// Package plain makes hosts of plain files for tests: the files of procfs, sysfs and cgroups that a test needs, in a
// directory.
package plain

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

// Host is a host of plain files. Its methods end the test at an error.
type Host struct {
	t testing.TB
	// Dir has the files.
	Dir string
}

// New returns a host without files, whose directory ends with the test.
func New(t testing.TB) *Host {
	t.Helper()
	return At(t, t.TempDir())
}

// At returns the host whose files are in a directory, which stays when the test ends.
func At(t testing.TB, dir string) *Host { return &Host{t, dir} }

// WithGroups returns a host with cgroup v2 and these controllers in its root group.
func WithGroups(t testing.TB, controllers string) *Host {
	t.Helper()
	h := New(t)
	h.Write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n")
	h.Write("sys/fs/cgroup/cgroup.controllers", controllers+"\n")
	return h
}

// Path returns the path of a file of the host.
func (h *Host) Path(name ...string) string { return filepath.Join(h.Dir, filepath.Join(name...)) }

// Write writes a file and makes the directories above it.
func (h *Host) Write(name, content string) {
	h.t.Helper()
	name = h.Path(name)
	h.must(errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)))
}

// Read returns the content of a file without the space around it.
func (h *Host) Read(name string) string {
	h.t.Helper()
	data, err := os.ReadFile(h.Path(name))
	h.must(err)
	return strings.TrimSpace(string(data))
}

// Remove removes a file, or a directory with all that is in it.
func (h *Host) Remove(name string) {
	h.t.Helper()
	h.must(os.RemoveAll(h.Path(name)))
}

// Root opens the host's files until the test ends.
func (h *Host) Root() *hostfs.Root {
	h.t.Helper()
	root, err := hostfs.Open(h.Dir)
	h.must(err)
	h.t.Cleanup(func() { _ = root.Close() })
	return root
}

// Cgroups opens the host's groups until the test ends.
func (h *Host) Cgroups() *cgroup.Host {
	h.t.Helper()
	groups, err := cgroup.Open(h.Root())
	h.must(err)
	return groups
}

func (h *Host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}
