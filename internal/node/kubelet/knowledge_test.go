package kubelet

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestSilence checks a kubelet that never answered. The obstacle becomes lasting at the first reading once the silence
// has lasted for the bound, with the error of that moment, which then stays. A kubelet that answered once may be down.
func TestSilence(t *testing.T) {
	const brief = time.Minute
	errEarly, errLate, errLater := errors.New("early"), errors.New("late"), errors.New("later")
	var k Knowledge
	takes := func(at time.Duration, r Reading, changed bool, want observed.Obstacle) {
		t.Helper()
		if got := k.Take(r, at, brief); got != changed {
			t.Errorf("at %s: changed %t", at, got)
		}
		got := k.Obstacle()
		if got.Reason != want.Reason || got.Lasting != want.Lasting || !strings.HasSuffix(got.Message, want.Message) {
			t.Errorf("at %s: %+v, want %+v", at, got, want)
		}
	}
	if o := k.Obstacle(); o.Reason != observed.KubeletUnknown || o.Lasting || k.Known() || k.Said() != nil {
		t.Errorf("before the first reading: %+v", o)
	}
	takes(0, Reading{Err: errEarly}, true, observed.Obstacle{Reason: observed.KubeletUnknown, Message: ": early", Lasting: false})
	takes(brief-1, Reading{Err: errLate}, true, observed.Obstacle{Reason: observed.KubeletUnknown, Message: ": early", Lasting: false})
	takes(brief, Reading{Err: errLate}, true, observed.Obstacle{Reason: observed.KubeletUnknown, Message: ": late", Lasting: true})
	takes(2*brief, Reading{Err: errLater}, true, observed.Obstacle{Reason: observed.KubeletUnknown, Message: ": late", Lasting: true})
	if !k.Known() || k.Said() != nil {
		t.Errorf("after a silence: known %t, said %+v", k.Known(), k.Said())
	}
	takes(3*brief, Reading{Config: Config{CPUManagerPolicy: "none"}, Whole: true}, true, observed.Obstacle{})
	takes(9*brief, Reading{Err: errLater}, false, observed.Obstacle{})
	takes(9*brief, Reading{Config: Config{CPUManagerPolicy: "static"}}, true, observed.Obstacle{Reason: observed.KubeletCPUManager, Message: "cpuManagerPolicy is static: it sets the CPU sets of this node", Lasting: false})
}

// TestKnowledgeStays checks that what a reading lacks keeps its last known value, also over a restart of the agent.
func TestKnowledgeStays(t *testing.T) {
	var k Knowledge
	reserved := cpuset.Set{}.Add(0).Add(1)
	k.Take(Reading{Config: Config{CPUManagerPolicy: "none", MemoryManagerPolicy: "Static", ReservedSystemCPUs: reserved}, Whole: true}, 0, time.Minute)
	k.Take(Reading{Config: Config{CPUManagerPolicy: "none"}}, time.Second, time.Minute)
	said := Said{CPUManagerPolicy: "none", MemoryManagerPolicy: "Static", ReservedCPUs: "0-1"}
	if got := k.Said(); got == nil || *got != said {
		t.Errorf("said %+v, want %+v", got, said)
	}
	if owner := k.MemsOwner(); !strings.Contains(owner, "memoryManagerPolicy is Static") {
		t.Errorf("memory nodes: %q", owner)
	}
	flags := kubeletDir(t, map[string]string{
		"config.yaml":       "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
		"cpu_manager_state": `{"policyName":"none","defaultCpuSet":""}`,
	})
	k.Take(Source{Dir: flags}.Read(t.Context()), 2*time.Second, time.Minute)
	if got := k.Config.ReservedSystemCPUs; got != reserved {
		t.Errorf("a file without reserved CPUs, which a flag may name, leaves %q", got)
	}
	var next Knowledge
	next.Recall(nil)
	next.Recall(&Said{ReservedCPUs: "no list"})
	if next.Known() {
		t.Error("known without a word of the kubelet")
	}
	next.Recall(&said)
	if got := next.Said(); got == nil || *got != said || next.Config.ReservedSystemCPUs != reserved {
		t.Errorf("recalled %+v, want %+v", got, said)
	}
	next.Take(Reading{Config: Config{MemoryManagerPolicy: "None"}, Whole: true}, 0, time.Minute)
	if next.MemsOwner() != "" || !next.Config.ReservedSystemCPUs.IsEmpty() {
		t.Errorf("a whole reading counts as it is: %+v", next.Config)
	}
}

// TestOutdated checks that a replaced file ends the agent, except for a kubelet that replaces its state with every pod.
func TestOutdated(t *testing.T) {
	for policy, want := range map[string]bool{"": true, "none": true, "static": false} {
		k := Knowledge{Config: Config{CPUManagerPolicy: policy}}
		if got := k.Outdated(Reading{Err: errors.Join(io.EOF, ErrReplaced)}); got != want {
			t.Errorf("policy %q: %t", policy, got)
		}
		if k.Outdated(Reading{Err: io.EOF}) || k.Outdated(Reading{}) {
			t.Errorf("policy %q: outdated without a replaced file", policy)
		}
	}
}
