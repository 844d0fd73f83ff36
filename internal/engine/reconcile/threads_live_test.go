package reconcile_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// Some kernels forget a thread's affinity when the runtime narrows its group. The thread gets the affinity that it
// asked for at the next pass, as far as the group has its CPUs, and in the end as a whole.
func TestAffinityAfterTheRuntimeWrote(t *testing.T) {
	l := newLive(t)
	tid := sleeper(t)
	must(t, l.c.Attach(tid))
	must(t, hostwrite.Affinity(tid, l.low))
	l.reconciler.Want(nil)
	l.pass(0)

	must(t, l.reconciler.Record(reconcile.Of([]reconcile.Group{{Group: l.c.Path(), CPUs: l.high, Workload: "ns/other"}}...)))
	must(t, l.c.SetCPUs(l.high))            // the runtime
	must(t, hostwrite.Affinity(tid, l.all)) // the kernel
	l.pass(time.Second)
	must(t, l.c.SetCPUs(l.all)) // another writer restores it
	must(t, hostwrite.Affinity(tid, l.all))
	l.reconciler.Want(nil)
	l.pass(time.Second)
	if has, err := kernel.ThreadAffinity(tid); err != nil || has != l.low {
		t.Errorf("the thread has CPUs %s, want %s: %v", has, l.low, err)
	}
	l.empty()
}

// sleeper starts a process with one thread and returns its process ID.
func sleeper(t *testing.T) int {
	t.Helper()
	sleeper := exec.CommandContext(t.Context(), os.Args[0])
	sleeper.Env = append(os.Environ(), sleepEnv+"=1")
	must(t, sleeper.Start())
	t.Cleanup(func() { _, _ = sleeper.Process.Kill(), sleeper.Wait() })
	return sleeper.Process.Pid
}
