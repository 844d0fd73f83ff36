package pin

import (
	"log/slog"
	"testing"

	"github.com/berth-project/berth/internal/capability/place/assignment"
	"github.com/berth-project/berth/internal/capability/place/hardware"
	"github.com/berth-project/berth/internal/capability/place/self"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/groups"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/statedir"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

// newNode returns the CPU sets of a host of plain files that was not read yet.
func newNode(t *testing.T, files map[string]string) *Sets {
	t.Helper()
	h := plain.WithGroups(t, "cpuset cpu")
	for name, content := range files {
		h.Write(name, content)
	}
	root, host := h.Root(), h.Cgroups()
	j, err := journal.Open(t.TempDir(), "boot", cgroupfile.Values())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
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
