package drift_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/drift"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/child"
	"github.com/berth-project/berth/test/patience"
)

// TestChild serves a child process.
func TestChild(t *testing.T) {
	child.Serve(t, func(string) error { return nil })
}

// TestLiveRepeated checks that a restarted unit of a committed profile gets its policy again when the agent compares,
// which the agent reports; that is no drift. On cgroup v1, where no unit is planned, nothing can be compared.
func TestLiveRepeated(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("real cgroups need root; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	groups, err := cgroup.Open(root)
	must(t, err)
	name := scratch.Name("test-drift")
	start := func() (int, *scratch.Group) {
		g, err := scratch.New(groups, "", name)
		must(t, err)
		t.Cleanup(func() { must(t, g.Close()) })
		return child.Start(t, g.Attach).Process.Pid, g
	}
	_, group := start()
	h := &host{t: t, state: t.TempDir(), root: root}
	h.groups = groups
	o := tuner.Order{Settings: []tune.Setting{{
		Knob: tune.UnitPolicy, Instance: "db.service", File: "/sys/fs/cgroup/" + name + "/cgroup.threads",
		Want: "batch", Write: "batch", Support: knob.Settable, Phase: knob.Units,
	}}}
	o.Profile.Name = "test"
	h.tuner(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
	must(t, group.Close()) // kills the unit
	pid, _ := start()

	enabled := false
	config := &v1alpha1.AgentConfig{StateDir: h.state}
	config.Cluster.Enabled = &enabled
	h.node = capability.Node{Config: config, Online: cpuset.Set{}.Add(0)}
	w := drift.New(drift.Options{Root: root, Boot: "boot", Groups: groups, Now: time.Now, Boottime: kernel.Boottime})
	ended := make(chan struct{})
	running, end := context.WithCancel(t.Context())
	go func() { defer close(ended); _ = w.Run(running) }()
	t.Cleanup(func() { end(); <-ended })
	var said string
	must(t, patience.Until(t.Context(), 10*time.Millisecond, func() string {
		h.node.Now += time.Minute
		for _, e := range w.Decide(&h.node).Events {
			said += fmt.Sprintln(e.Reason, e.Warning, e.Text)
		}
		if said == "" {
			return "nothing is said"
		}
		return ""
	}))
	s, err := kernel.ThreadScheduled(pid)
	if want := "HostDrift false host profile: set again, since the unit was restarted: unit.policy db.service\n"; err != nil || s.Class != kernel.Batch || !strings.HasPrefix(said, want) {
		t.Errorf("%+v, %v; said %s", s, err, said)
	}
	if _, err := os.Stat(filepath.Join(h.state, tuner.Subdir, "applied")); err != nil {
		t.Error(err)
	}
	end()
	<-ended // the next check uses the state directory, if it has begun
	h.tuner(func(u *tuner.Tuner) { u.Rollback() })
	if s, err := kernel.ThreadScheduled(pid); err != nil || s.Class != kernel.Other {
		t.Errorf("rolled back: %+v, %v", s, err)
	}
}
