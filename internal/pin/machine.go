package pin

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hardware"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/observed"
	"github.com/berth-project/berth/internal/placement"
)

// ReadMachine reads the topology again if the CPUs that are online, reserved or in cpuset partitions changed, or the
// memory of a NUMA node did. It reports whether it did. reserved comes from the agent's file, node from the cluster,
// nil on a host without Kubernetes.
func (s *Sets) ReadMachine(now time.Duration, online, reserved cpuset.Set, node *cluster.Node) bool {
	s.online = online
	var labels map[string]string
	if node != nil {
		labels = node.Labels
		if own := s.kubelet.Config.ReservedSystemCPUs; !own.IsEmpty() {
			reserved = own
		}
	}
	policy, problems := placement.PolicyOf(labels)
	s.opts.Invalid(problems.Err())
	facts, changed, err := s.machine.Update(s.opts.Root.FS(), hardware.Basis{
		Online: online, Reserved: reserved, Partitioned: s.Partitioned(), Policy: policy,
	}, now)
	if err != nil {
		s.opts.Fail("topology", err)
	}
	if doubt := s.machine.Doubt(); doubt != s.logged.doubt {
		s.logged.doubt = doubt
		s.opts.Log.Warn("memory of the machine", "doubt", cmp.Or(doubt, "none any more"))
	}
	if !changed {
		return false
	}
	facts.AllocatableMilli = s.machine.AllocatableMilli()
	if node != nil {
		facts.AllocatableMilli = node.AllocatableMilli
	}
	s.assignment.SetFacts(facts)
	t := s.machine.Topology
	s.opts.Log.Info("machine", "online", t.Online.String(), "reserved", reserved.String(), "partitioned", t.Partitioned.String(), "numaNodes", len(t.Nodes), "l3", len(t.L3))
	if absent := reserved.Difference(t.Online); !absent.IsEmpty() {
		s.opts.Log.Warn("reserved CPUs are not online", "cpus", absent.String())
	}
	if t.Online.Difference(reserved).IsEmpty() {
		s.opts.Log.Warn("every CPU is reserved: no workload can have exclusive ones", "reserved", reserved.String())
	}
	return true
}

// Partitioned returns the CPUs that cpuset partitions have taken from all other groups: the root of cgroup v2 has all
// remaining CPUs in effect (kernel/cgroup/cpuset.c, effective_cpus of top_cpuset).
func (s *Sets) Partitioned() cpuset.Set {
	left := s.opts.Groups.EffectiveCPUs("")
	if left.IsEmpty() {
		return cpuset.Set{} // unreadable
	}
	return s.online.Difference(left)
}

// TakeKubelet stores the kubelet's configuration, or why it is unknown, and reports whether that may change anything.
// The error means that only a new container of the agent will see the change.
func (s *Sets) TakeKubelet(r kubelet.Reading, now time.Duration) (changed bool, err error) {
	k := &s.kubelet
	if k.Outdated(r) {
		return false, fmt.Errorf("the agent must be restarted: %w", r.Err)
	}
	if r.MemoryErr != nil && k.MemoryErr == nil { // once while it lasts
		s.opts.Log.Warn("the memory that the kubelet gave to pods is not known: what it said last counts", "error", r.MemoryErr)
	}
	before, devices, memory := k.Config, k.TakeDevices(r), k.TakeMemory(r)
	if devices {
		s.opts.Log.Info("devices of the kubelet", "known", len(k.Devices))
	}
	if !k.Take(r, now, observed.BriefFor) {
		return devices || memory, nil
	}
	if after := k.Config; before.CPUManagerPolicy != after.CPUManagerPolicy || before.MemoryManagerPolicy != after.MemoryManagerPolicy {
		s.opts.Log.Info("kubelet", "cpuManagerPolicy", after.CPUManagerPolicy, "memoryManagerPolicy", after.MemoryManagerPolicy, "reserved", after.ReservedSystemCPUs.String(), "error", r.Err)
	}
	s.passOwner()
	return true, nil
}

// passOwner tells the inventory which CPU sets and memory nodes the kubelet manages.
func (s *Sets) passOwner() {
	s.inventory.Kubelet(s.kubelet.Obstacle(), s.kubelet.MemsOwner())
}
