package drift_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
// and that a process which is moved into the unit gets it as well. The agent reports both; neither is drift. A process
// with a policy of its own keeps it, and is drift.
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
	_, first := start()
	h := &host{t: t, state: t.TempDir(), root: root}
	h.groups = groups
	cpu, err := groups.Hierarchy(cgroup.CPU)
	must(t, err)
	file := knob.ThreadsFile
	if cpu.Version == 1 {
		file = knob.ThreadsFileV1
	}
	o := tuner.Order{Settings: []tune.Setting{{
		Knob: tune.UnitPolicy, Instance: "db.service", File: filepath.Join(cpu.Mount, name, file),
		Want: "batch", Write: "batch", Support: knob.Settable, Phase: knob.Units,
	}}}
	o.Profile.Name = "test"
	h.tuner(func(u *tuner.Tuner) { _, err := u.Apply(o); must(t, err) })
	must(t, first.Close()) // kills the unit
	pid, group := start()

	enabled := false
	config := &v1alpha1.AgentConfig{StateDir: h.state}
	config.Cluster.Enabled = &enabled
	h.node = capability.Node{Config: config, Online: cpuset.Set{}.Add(0)}
	w := drift.New(drift.Options{Root: root, Kernel: tuner.KernelOf(root), Boot: "boot", Groups: groups, Now: time.Now, Boottime: kernel.Boottime})
	ended := make(chan struct{})
	running, end := context.WithCancel(t.Context())
	go func() { defer close(ended); _ = w.Run(running) }()
	t.Cleanup(func() { end(); <-ended })
	says := func(pid int, class kernel.Class, want string) {
		t.Helper()
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
		if err != nil || s.Class != class || !strings.HasPrefix(said, want) {
			t.Errorf("%+v, %v; said %s", s, err, said)
		}
	}
	says(pid, kernel.Batch, "HostDrift false host profile: set again, since the unit was restarted: unit.policy db.service\n")
	moved := child.Start(t, group.Attach).Process.Pid // it inherits nothing
	says(moved, kernel.Batch, "HostDrift false host profile: given to threads that had not inherited it, and to such threads from now on: unit.policy db.service\n")
	own := child.Start(t, func(pid int) error {
		return errors.Join(unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0), group.Attach(pid))
	}).Process.Pid
	says(own, kernel.Idle, "HostDrift true host profile test: unit.policy db.service is drift: \"batch, idle\"")
	if _, err := os.Stat(filepath.Join(h.state, tuner.Subdir, "applied")); err != nil {
		t.Error(err)
	}
	end()
	<-ended // the next check uses the state directory, if it has begun
	h.tuner(func(u *tuner.Tuner) { u.Rollback() })
	for pid, class := range map[int]kernel.Class{pid: kernel.Other, moved: kernel.Other, own: kernel.Idle} {
		if s, err := kernel.ThreadScheduled(pid); err != nil || s.Class != class {
			t.Errorf("rolled back: %+v, %v, want %v", s, err, class)
		}
	}
}
