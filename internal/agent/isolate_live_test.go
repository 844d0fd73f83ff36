package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// An offline workload has cores of its own while it is there and while the agent runs, beside
// an online one, and both have all CPUs again after that.
func TestLiveOfflineWorkloadHasItsOwnCores(t *testing.T) {
	p := newPair(t, "offline")
	top, err := topology.Discover(p.root.FS())
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Cores) < 2 {
		t.Skipf("%d core: none can be offline work's alone; the VM has more", len(top.Cores))
	}
	all, limit := p.cpusOf(p.group), p.bandwidth()
	config, err := os.ReadFile(filepath.Join(p.dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("agent.yaml", string(config)+"resource-threshold-config: {clusterStrategy: {enable: true, cpuSuppressMinPercent: 1}}\n")
	write := func(class string) {
		p.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, labels: {koordinator.sh/qosClass: %s}}
spec: {cgroup: %s}
`, class, p.group.Path()))
	}
	apart := func(own, other cpuset.Set) bool {
		for _, c := range top.Cores {
			if c.CPUs.Intersects(own) && c.CPUs.Intersects(other) {
				return false
			}
		}
		return !own.IsEmpty() && !other.IsEmpty() && own.Union(other) == all
	}
	shared := func(own, other cpuset.Set) bool { return own == all && other == all }
	write("BE")
	stop := p.start()
	p.settles("offline work came", apart)
	if text := p.get("/api/v1/status"); !strings.Contains(text, `"cores":"cpuset"`) || !strings.Contains(text, "offline work came") {
		t.Errorf("status %s", text)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if own, other := p.cpusOf(p.group), p.cpusOf(p.other); !shared(own, other) {
		t.Fatalf("after the end of the agent CPUs %s and %s, want %s", own, other, all)
	}
	p.start()
	p.settles("another agent", apart)
	write("LS")
	p.settles("no offline work", shared)
	p.eventually(limit)
}
