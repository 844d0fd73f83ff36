package kernel

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestOwnThread checks that a thread gets its settings, and that the process gets none of them.
func TestOwnThread(t *testing.T) {
	before, err := ThreadAffinity(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	OnThread(func() {
		group, err := OwnGroupCPUs()
		if err != nil || !before.IsSubsetOf(group) {
			t.Errorf("group %s, before %s, %v", group, before, err)
		}
		first, _ := group.Min()
		one := cpuset.Set{}.Add(first)
		if err := BindCPUs(one); err != nil {
			t.Error(err)
		}
		if has, err := ThreadAffinity(0); err != nil || has != one {
			t.Errorf("runs on %s, want %s, %v", has, one, err)
		}
		for _, class := range []Class{Batch, Other} {
			if err := Schedule(Scheduling{Class: &class}); err != nil {
				t.Errorf("%s: %v", class, err)
			}
		}
		trySlices(t)
		nodes, err := OwnMemoryNodes()
		if err != nil {
			t.Errorf("memory nodes %s, %v", nodes, err)
		}
		tryMemory(t, nodes)
	})
	if after, err := ThreadAffinity(os.Getpid()); err != nil || after != before {
		t.Errorf("the process runs on %s, before on %s, %v", after, before, err)
	}
}

// tryMemory checks that a kernel with NUMA binds memory to nodes of the group. The kernel silently ignores other nodes,
// which must be an error here.
func tryMemory(t *testing.T, nodes cpuset.Set) {
	if _, _, err := memoryPolicy(); errors.Is(err, unix.ENOSYS) {
		if err := BindMemory(cpuset.Set{}.Add(0)); !errors.Is(err, ErrNotSupported) {
			t.Errorf("memory without NUMA: %v", err)
		}
		return
	}
	if err := BindMemory(nodes); err != nil {
		t.Error(err)
	}
	if mode, has, err := memoryPolicy(); mode != unix.MPOL_BIND || has != nodes || err != nil {
		t.Errorf("policy %d, nodes %s, %v; want %s", mode, has, err, nodes)
	}
	last, _ := nodes.Max()
	if err := BindMemory(nodes.Add(last + 1)); err == nil {
		t.Errorf("bound to node %d, which is not there", last+1)
	}
}

// trySlices sets a slice, which must succeed exactly on kernels that report a default slice, and must survive a change
// of the scheduling class.
func trySlices(t *testing.T) {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Error(err)
		return
	}
	err = Schedule(Scheduling{Slice: 5 * time.Millisecond})
	if has := attr.Runtime > 0; has && err != nil || !has && !errors.Is(err, ErrNotSupported) {
		t.Errorf("a slice where the default is %d ns: %v", attr.Runtime, err)
	}
	batch, other := Batch, Other
	for _, class := range []*Class{&batch, &other} {
		err := Schedule(Scheduling{Class: class})
		if has, errRead := unix.SchedGetAttr(0, 0); err != nil || errRead != nil || attr.Runtime > 0 && has.Runtime != uint64(5*time.Millisecond) {
			t.Errorf("%s after a slice of 5ms: %+v, %v, %v", class, has, err, errRead)
		}
	}
	idle := Idle
	if err := Schedule(Scheduling{Class: &idle}); err != nil {
		t.Error(err)
	}
	if err := Schedule(Scheduling{Slice: time.Millisecond}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("a slice of an idle thread: %v", err)
	}
}

// TestRealTimeNeedsRights checks that the error names the missing right, without CAP_SYS_NICE and with no limit for
// real-time priorities.
func TestRealTimeNeedsRights(t *testing.T) {
	OnThread(func() {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			t.Error(err)
		}
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_RTPRIO, &limit); err != nil {
			t.Error(err)
		}
		if limit.Cur > 98 {
			t.Errorf("the limit of real-time priorities is %d: nothing to refuse", limit.Cur)
		}
		fifo := FIFO
		err := Schedule(Scheduling{Class: &fifo, Priority: 99})
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "policy fifo with priority 99: it needs CAP_SYS_NICE") {
			t.Errorf("real time without the right: %v", err)
		}
	})
}

// childFlag makes this test binary the child of TestConfinedCPUs, which waits for the end of its input.
const childFlag = "BERTH_TEST_CONFINED"

// TestConfinedCPUs checks that ConfinedCPUs returns the CPUs to which threads of other programs are confined, and
// ignores this process.
func TestConfinedCPUs(t *testing.T) {
	if os.Getenv(childFlag) != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	online, err := ThreadAffinity(os.Getpid())
	if err != nil || online.Size() < 2 {
		t.Fatalf("CPUs %s, %v: want two or more", online, err)
	}
	last, _ := online.Max()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), exe, "-test.run=^TestConfinedCPUs$")
	child.Env = append(os.Environ(), childFlag+"=1")
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	OnThread(func() {
		if err := BindCPUs(cpuset.Set{}.Add(last)); err != nil {
			t.Error(err)
		}
		if err := child.Start(); err != nil { // by this thread, whose CPUs it inherits
			t.Error(err)
		}
	})
	if t.Failed() {
		return
	}
	if got := ConfinedCPUs(online); !got.Contains(last) {
		t.Errorf("CPUs %s are confined to, want %d among them", got, last)
	}
	if got := ConfinedCPUs(cpuset.Set{}.Add(last)); !got.IsEmpty() {
		t.Errorf("CPUs %s of one CPU: all is no confinement", got)
	}
	if err := errors.Join(input.Close(), child.Wait()); err != nil {
		t.Error(err)
	}
}
