package pin

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/internal/capability/place/assignment"
	"github.com/berth-project/berth/internal/capability/place/hardware"
	"github.com/berth-project/berth/internal/capability/place/self"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/node/groups"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/statedir"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// newNode returns the CPU sets of a host of plain files that was not read yet.
func newNode(t *testing.T, files map[string]string) *Sets {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, content string) {
		name = filepath.Join(dir, name)
		must(errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)))
	}
	write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n")
	write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
	for name, content := range files {
		write(name, content)
	}
	root, err := hostfs.Open(dir)
	must(err)
	host, err := cgroup.Open(root)
	must(err)
	j, err := journal.Open(t.TempDir(), "boot", cgroupfile.Values())
	must(err)
	t.Cleanup(func() { _, _ = j.Close(), root.Close() })
	all := &groups.Groups{Host: host, Journal: j}
	inv := inventory.New(all, workload.Administrator{})
	log, fail := slog.New(slog.NewTextHandler(t.Output(), nil)), func(what string, err error) { t.Errorf("%s: %v", what, err) }
	return New(Options{
		Root: root, Host: host, Log: log, Groups: all,
		Answers: statedir.NewAnswers(t.TempDir(), "boot"),
		Self:    self.Self{Host: host, Sealed: true},
		Hardware: hardware.NewNode(hardware.Options{
			Root: root, Log: log, Fail: fail, Invalid: func(error) {}, Effective: all.EffectiveCPUs,
		}),
		Fail: fail, MayChange: func(string, cpuset.Set) error { return nil },
	}, inv, assignment.New(inv))
}

// reads reads the machine, as an agent does every second.
func reads(s *Sets) {
	if facts, changed := s.opts.Hardware.Read(0, cpuset.Set{}, nil); changed {
		s.assignment.SetFacts(facts)
	}
}
