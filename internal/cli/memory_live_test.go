package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/scratch"
)

// TestPassByHand makes a mover walk a real process whose pages are local, because every node counts as local. The pass
// moves nothing and finds no foreign page. An interrupted pass ends at once.
func TestPassByHand(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes a control group: needs root; the VM runs it: make verify-kernels")
	}
	g := &globals{Root: "/"}
	root, closed, err := g.openReading()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closed)
	o := &memoryHost{root: root}
	if err := o.discover(); err != nil {
		if errors.Is(err, cgroup.ErrNoHierarchy) {
			t.Skip("this host has no memory controller; the virtual machines of test/kernel have it")
		}
		t.Fatal(err)
	}
	group, err := scratch.New(o.host, "", scratch.Name("test-memory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := group.WithMemory(); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), exe, "doctor", "--interval", "60s") // It waits; not every machine has sleep.
	child.Args[0] = "berth"
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	if err := group.Attach(child.Process.Pid); err != nil {
		t.Fatal(err)
	}

	order := mover.Order{Key: "test", Group: group.Path(), Local: o.nodes.Memory(), Nodes: o.nodes}
	r, err := o.pass(t.Context(), order, func(string) {})
	if err != nil || r.Err != nil || r.Phase != mover.Done || r.Outcome != locality.Skipped {
		t.Errorf("%+v, %v, want %s", r, err, locality.Skipped)
	}
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	if r, err = o.pass(interrupted, order, func(string) {}); err != nil || exitCode(failure(interrupted, r)) != exitFailed {
		t.Errorf("interrupted: %+v, %v", r, err)
	}
	f := migrateFlags{memoryFlags: memoryFlags{pid: child.Process.Pid}}
	if got, err := f.target(o, nil); err != nil || got.group != group.Path() {
		t.Errorf("group of process %d: %+v, %v, want %s", child.Process.Pid, got, err, group.Path())
	}
}
