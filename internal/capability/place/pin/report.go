package pin

import (
	"maps"
	"strings"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Keys of place in the checkpoint and in the JSON of status.
const (
	placeName  = "place"
	keyCPUs    = "cpus"
	keyKubelet = "kubelet"
)

// CPUs says which containers have which CPUs of the node. CPU lists are in the kernel's format.
type CPUs struct {
	// Exclusive are the CPUs that workloads have exclusively, with siblings that stay empty; Shared the CPUs of all
	// other workloads; Free the CPUs that could still be assigned.
	Exclusive string `json:"exclusive"`
	// Offline are the CPUs of offline workloads, empty if these share the pool.
	Offline string `json:"offline,omitempty"`
	Shared  string `json:"shared"`
	Free    string `json:"free"`
	// Reserved are kept for the host.
	Reserved string `json:"reserved"`
	// Fragmentation is the share, of the CPUs that no pod has, in L3 domains that are partly in use, in percent.
	Fragmentation int `json:"fragmentationPercent"`
	// Unpinnable is why Berth sets no CPU sets here, empty if it sets them.
	Unpinnable string `json:"unpinnable,omitempty"`
	// Overcommitted is a sentence about a shared pool that is too small.
	Overcommitted string `json:"overcommitted,omitempty"`
	// Memory is what is doubtful about the memory of the NUMA nodes.
	Memory string `json:"memory,omitempty"`
	// Containers are the containers with exclusive CPUs, and those that shrink to the shared pool.
	Containers []ContainerCPUs `json:"containers"`
}

// ContainerCPUs is one container, or one workload of a host without Kubernetes.
type ContainerCPUs struct {
	Pod       string `json:"pod"`
	Container string `json:"container,omitempty"`
	// CPUs and Mems are the desired lists, empty for those from before Berth. Borrowed are the CPUs that other
	// containers also use: the remaining CPUs are reserved for this container.
	CPUs     string `json:"cpus,omitempty"`
	Borrowed string `json:"borrowed,omitempty"`
	Mems     string `json:"mems,omitempty"`
	Pinned   bool   `json:"pinned"`
	Why      string `json:"why"`
	// Refused is why it has no exclusive CPUs although it asks, empty otherwise.
	Refused string `json:"refused,omitempty"`
}

// Describe implements capability.Capability.
func (*Sets) Describe() capability.Info {
	return capability.Info{
		Name:   placeName,
		Owners: []plan.Owner{plan.OwnerPlace, plan.OwnerPool},
		Owned: map[plan.Owner]string{
			plan.OwnerPlace: "exclusive CPUs and their memory nodes",
			plan.OwnerPool:  "the shared pool of all that have no exclusive CPUs",
		},
		Summary: "exclusive CPUs and their memory nodes, and the shared pool of all others",
		Page:    "docs/node.md",
		Keys: []string{
			v1alpha1.AnnotationCPUSetScheduler, v1alpha1.AnnotationCPUPolicy,
			v1alpha1.AnnotationResourceSpec, v1alpha1.AnnotationNUMATopologySpec,
		},
		Metrics: []capability.Metric{
			{Name: "node_exclusive_cpus", Help: "CPUs that containers have exclusively, including SMT siblings that stay empty."},
			{Name: "node_held_unrequested_cpus", Help: "Exclusive CPUs beyond the CPU requests of the pods that hold them, " +
				"including SMT siblings that stay empty: programs that add up requests do not see these CPUs. " +
				"A host without Kubernetes does not have this metric."},
			{Name: "node_shared_cpus", Help: "CPUs of all containers without exclusive CPUs."},
			{Name: "node_offline_cpus", Help: "CPUs of offline work; 0 while it shares the CPUs of other work."},
			{Name: "node_free_cpus", Help: "CPUs that containers could still get exclusively."},
			{Name: "node_fragmentation_ratio", Help: "Share, of the CPUs that no pod has, in L3 domains, or NUMA nodes, that are partly in use; 0 to 1."},
			{Name: "node_pinnable", Help: "1 while Berth sets CPU sets on this node; else 0, with the reason.", Labels: []string{"reason"}},
			{Name: "pinned_cpus", Help: "Exclusive CPUs of a container.", Labels: capability.WorkloadLabels()},
			{Name: "refused_containers", Help: "Containers that request exclusive CPUs and have none, by reason.", Labels: []string{"reason"}},
		},
		Reader: placeReader{},
	}
}

// Measure implements capability.Measured.
func (s *Sets) Measure(add func(capability.Sample)) {
	sample := func(metric string, value float64, labels ...string) {
		add(capability.Sample{Metric: metric, Value: value, Labels: labels})
	}
	reason, pinnable := s.inventory.Obstacle().Reason, 1.0
	if reason != "" {
		pinnable = 0
	}
	sample("node_pinnable", pinnable, reason)
	if s.opts.Hardware.Machine.Topology == nil {
		return
	}
	now, refused := s.assignment.Snapshot(), map[string]int{}
	sample("node_exclusive_cpus", float64(now.Exclusive.Size()))
	if s.cluster != nil {
		sample("node_held_unrequested_cpus", s.assignment.Unrequested())
	}
	sample("node_shared_cpus", float64(now.Shared.Size()))
	sample("node_offline_cpus", float64(now.Offline.Size()))
	sample("node_free_cpus", float64(now.Free.Size()))
	sample("node_fragmentation_ratio", float64(now.Fragmentation.Percent)/percent)
	for _, row := range now.Rows {
		switch {
		case row.Phase == observed.Stopped:
		case row.Pinned:
			sample("pinned_cpus", float64(row.Desired.Difference(row.Borrowed).Size()), capability.LabelsOf(workloadOf(row))...)
		case row.RefusedWord != "":
			refused[row.RefusedWord]++
		}
	}
	for word, n := range refused {
		sample("refused_containers", float64(n), word)
	}
}

// workloadOf names a container as the workload that its limit is for. On a host without Kubernetes that is the whole
// pod, whose name has no namespace.
func workloadOf(row place.Row) string {
	if !strings.Contains(row.Pod, "/") || row.Container == "" {
		return row.Pod
	}
	return row.Pod + "/" + row.Container
}

// percent is the number of percent in a whole.
const percent = 100

// Outcome implements capability.Capability. No code changes the result: while nothing changes, all results share it.
func (s *Sets) Outcome(time.Time) capability.Outcome {
	out := capability.Outcome{Node: capability.Sections{}}
	if s.opts.Hardware.Machine.Topology == nil {
		return out
	}
	if now := s.reportOf(); s.said.cpus == nil || s.said.of != now || !maps.Equal(s.said.wide, s.wide) {
		s.said = said{of: now, wide: s.wide, cpus: s.cpus(now), shown: s.shown(now)}
	}
	out.Node[keyCPUs], out.Shown = s.said.cpus, s.said.shown
	return out
}

// said is the last report, with all that it was made of. Each round of decisions makes another map wide.
type said struct {
	of    source
	wide  map[string]wide
	cpus  *CPUs
	shown capability.Shown
}

// source is what a report is made of, except the memory nodes that stay.
type source struct {
	placed   *place.Snapshot
	machine  *topology.Topology
	reserved cpuset.Set
	doubt    string
	obstacle string
}

// reportOf returns what a report is made of now.
func (s *Sets) reportOf() source {
	m := s.opts.Hardware.Machine
	return source{s.assignment.Snapshot(), m.Topology, m.Reserved(), m.Doubt(), s.inventory.Obstacle().Message}
}

// State implements capability.Rememberer. An agent that starts while the kubelet does not answer uses the kubelet's last
// configuration.
func (s *Sets) State() capability.Sections {
	if said := s.opts.Hardware.Kubelet.Said(); said != nil {
		return capability.Sections{keyKubelet: said}
	}
	return nil
}

// Recall implements capability.Capability.
func (s *Sets) Recall(saved capability.Sections) error {
	var said *kubelet.Said
	if err := saved.Decode(keyKubelet, &said); err != nil {
		return err
	}
	s.opts.Hardware.Kubelet.Recall(said)
	return nil
}

// nameOfRow names a group that only shrinks to the shared pool by its path.
func nameOfRow(row place.Row) string {
	if row.PodUID == "" {
		return row.ContainerID
	}
	return row.Pod
}

// shows reports whether the CPUs of a row are reported: a sandbox does nothing.
func shows(row place.Row) bool {
	return row.Phase != observed.Stopped && (row.Container != "" || row.Pinned || row.PodUID == "")
}

// why returns the memory nodes of a row's container, and the reason for them and its CPUs.
func (s *Sets) why(row place.Row) (mems cpuset.Set, text string) {
	if kept := s.wide[row.ContainerID]; kept.why != "" {
		return kept.mems, row.Why + "; memory nodes stay " + kept.mems.String() + kept.why
	}
	return row.Mems, row.Why
}

// cpus collects which containers have which CPUs.
func (s *Sets) cpus(of source) *CPUs {
	now := of.placed
	out := &CPUs{
		Exclusive: now.Exclusive.String(), Offline: now.Offline.String(), Shared: now.Shared.String(), Free: now.Free.String(),
		Reserved:      of.reserved.String(),
		Fragmentation: now.Fragmentation.Percent,
		Unpinnable:    of.obstacle,
		Overcommitted: now.OvercommittedText,
		Memory:        of.doubt,
		Containers:    make([]ContainerCPUs, 0, len(now.Rows)),
	}
	for _, row := range now.Rows {
		if !shows(row) {
			continue
		}
		mems, why := s.why(row)
		out.Containers = append(out.Containers, ContainerCPUs{
			Pod: nameOfRow(row), Container: row.Container, CPUs: row.Desired.String(), Mems: mems.String(), Borrowed: row.Borrowed.String(),
			Pinned: row.Pinned, Why: why, Refused: row.Refused,
		})
	}
	return out
}

// shown returns the same data for drawing.
func (s *Sets) shown(of source) capability.Shown {
	now := of.placed
	out := capability.Shown{
		Machine: of.machine, Obstacle: of.obstacle, Holdings: make([]capability.Holding, 0, len(now.Rows)),
		Pools: []capability.Pool{
			{Name: "exclusive", CPUs: now.Exclusive},
			{Name: "offline", CPUs: now.Offline},
			{Name: "reserved", CPUs: of.reserved},
			{Name: "shared", CPUs: now.Shared},
			{Name: "free", CPUs: now.Free},
		},
	}
	for _, row := range now.Rows {
		if !shows(row) {
			continue
		}
		name := nameOfRow(row)
		if row.PodUID != "" {
			name = workloadOf(row)
		}
		one := capability.Holding{Workload: name, CPUs: row.Desired, Borrowed: row.Borrowed, Exclusive: row.Pinned, Refused: row.Refused}
		one.Mems, one.Why = s.why(row)
		out.Holdings = append(out.Holdings, one)
	}
	return out
}
