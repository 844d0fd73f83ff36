package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// An offline workload has cores of its own beside an online workload while it exists and the agent runs. Afterwards
// both have all CPUs again.
func TestLiveOfflineWorkloadHasItsOwnCores(t *testing.T) {
	p := newPair(t, "offline")
	p.hurries()
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
	// The reason depends on how busy the machine was in the first second.
	if text := p.view(); !strings.Contains(text, `"cores":"cpuset"`) || !regexp.MustCompile(`"reason":"[a-z ,]+","moved":"[a-z ,]+"`).MatchString(text) {
		t.Errorf("status %s", text)
	}
	if text := p.view(); !regexp.MustCompile(`"system":\{("use":[0-9.e-]+|"unknown":"it was looked at for the first time")\}`).MatchString(text) {
		t.Errorf("the system is not measured: %s", text)
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

// With cfsQuota, the group of all offline work has a quota while offline work exists, and its own limit afterwards. On
// cgroup v1 there is no quota while a group below has a larger limit, because the kernel would refuse it.
func TestLiveOfflineWorkByQuota(t *testing.T) {
	p := newPair(t, "ceiling")
	p.hurries()
	top, err := topology.Discover(p.root.FS())
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Cores) < 2 {
		t.Skipf("%d core: offline work has no quota; the VM has more", len(top.Cores))
	}
	hierarchy, err := p.host.Hierarchy(cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(p.dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("agent.yaml", string(config)+"resource-threshold-config: {clusterStrategy: {enable: true, cpuSuppressPolicy: cfsQuota}}\n")
	batch, err := p.group.Sub("batch")
	if err != nil {
		t.Fatal(err)
	}
	many := unit.Micros(100000 * (len(top.Cores)*8 + 1))
	if err := errors.Join(p.group.SetMax(-1, 100000), batch.SetMax(many, 100000)); err != nil {
		t.Fatal(err)
	}
	none := p.bandwidth()
	write := func(class string) {
		p.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, labels: {koordinator.sh/qosClass: %s}}
spec: {cgroup: %s}
`, class, batch.Path()))
	}
	write("BE")
	stop := p.start()
	p.waitReady()
	bounded := func(cpuset.Set, cpuset.Set) bool { return p.bandwidth() != none }
	free := func(cpuset.Set, cpuset.Set) bool { return p.bandwidth() == none }
	if hierarchy.Version == 1 {
		p.settles("a larger limit below", func(cpuset.Set, cpuset.Set) bool {
			return strings.Contains(p.view(), "the kernel refuses that because of the group below it")
		})
		if got := p.bandwidth(); got != none {
			t.Errorf("the quota is %s, want %s", got, none)
		}
		if err := batch.SetMax(-1, 100000); err != nil {
			t.Fatal(err)
		}
	}
	p.settles("offline work came", bounded)
	write("LS")
	p.settles("no offline work", free)
	write("BE")
	p.settles("offline work came again", bounded)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := p.bandwidth(); got != none {
		t.Errorf("after the end of the agent the quota is %s, want %s", got, none)
	}
}

// Idle offline work leaves a reserve on the real files. The offline group gets the complement of the reserve, and the
// online group is not written. Both have all CPUs after offline work or the agent has ended.
func TestLiveOfflineWorkLeavesAReserve(t *testing.T) {
	p := newPair(t, "reserve")
	p.hurries()
	top, err := topology.Discover(p.root.FS())
	if err != nil {
		t.Fatal(err)
	}
	all := p.cpusOf(p.group)
	cores := isolate.Movable(top, all, top.Reserved.Union(top.Isolated))
	reserve := isolate.Reserve(cores, cpuset.Set{}, 10)
	if reserve.IsEmpty() {
		t.Skip("no L3 has two cores; the VM has more")
	}
	config, err := os.ReadFile(filepath.Join(p.dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("agent.yaml", string(config)+"resource-qos-config: {clusterStrategy: {beClass: {cpuQOS: {enable: true}}}}\nisolation: {pullReservePercent: 10}\n")
	write := func(class string) {
		p.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, labels: {koordinator.sh/qosClass: %s}}
spec: {cgroup: %s}
`, class, p.group.Path()))
	}
	left := func(own, other cpuset.Set) bool { return own == all.Difference(reserve) && other == all }
	shared := func(own, other cpuset.Set) bool { return own == all && other == all }
	write("BE")
	stop := p.start()
	p.settles("idle offline work", left)
	if text := p.view(); !strings.Contains(text, fmt.Sprintf(`"reserve":{"cpus":%q}`, reserve.String())) {
		t.Errorf("status %s", text)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if own, other := p.cpusOf(p.group), p.cpusOf(p.other); !shared(own, other) {
		t.Fatalf("after the end of the agent CPUs %s and %s, want %s", own, other, all)
	}
	p.start()
	p.settles("another agent", left)
	write("LS")
	p.settles("no offline work", shared)
}
