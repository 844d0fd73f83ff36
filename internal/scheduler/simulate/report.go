package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Report is the result of a run. Its JSON is a stable contract.
type Report struct {
	// Placements are the pods that have a node now, in the order of decision.
	Placements []Placement `json:"placements"`
	// Pending are the pods that no node accepts, in the order of decision.
	Pending []Pending `json:"pending"`
	// Nodes are sorted by name.
	Nodes []Node `json:"nodes"`
	// Fragmentation is the fragmentation of all nodes together.
	Fragmentation Change `json:"fragmentation"`
	// NotSimulated are the gaps that the input touches.
	NotSimulated []Gap `json:"notSimulated"`
	// Ignored are documents that are not part of a simulation.
	Ignored []Ignored `json:"ignored"`
	// Notes are the assumptions made.
	Notes []string `json:"notes"`
}

// Placement is a pod and its node.
type Placement struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// From is the workload that the pod belongs to.
	From string `json:"from,omitempty"`
	Node string `json:"node"`
	// Equals is how many other nodes had the same score; the first name wins.
	Equals int `json:"equals"`
	// Containers are the containers with exclusive CPUs, by name.
	Containers []Container `json:"containers"`
	// LeftEmpty are the siblings that exclusivity withholds from all pods, a list.
	LeftEmpty cpuset.Set `json:"leftEmpty,omitzero"`
	// Why are the terms that decided the CPUs; empty for an ordinary pod.
	Why []Reason `json:"why"`
	// Warnings name the pod's keys that do not take effect as written.
	Warnings []string `json:"warnings"`

	annotation string // as the scheduler would write it
}

// Container is the placement of one container.
type Container struct {
	Name string `json:"name"`
	// CPUs and Mems are lists, as in the annotation berth.dev/placement.
	CPUs   string `json:"cpus"`
	Mems   string `json:"mems"`
	Policy string `json:"policy"`
	// Domain is where a static-burst container widens.
	Domain string `json:"domain,omitempty"`
	// NUMANodes and L3 are the IDs of the domains of the CPUs.
	NUMANodes []int `json:"numaNodes"`
	L3        []int `json:"l3"`
}

// Reason is a term that decided an answer.
type Reason struct {
	Term string `json:"term"`
	// Value is the answer's. Best is the value for the same request on the empty machine, or, in an Explanation of a
	// bound pod, on the machine as it is.
	Value int    `json:"value"`
	Best  int    `json:"best"`
	Text  string `json:"text"`
}

// Pending is one pod that waits.
type Pending struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	From      string `json:"from,omitempty"`
	// Reason groups the nodes by their reasons, as kube-scheduler does.
	Reason string `json:"reason"`
	// Nodes has the refusal of each node; empty with SameAs.
	Nodes []NodeReason `json:"nodes"`
	// SameAs names an earlier pod of the workload that every node refused for exactly the same reasons.
	SameAs string `json:"sameAs,omitempty"`
	// Repack makes room for the pod. It is nil if no plan was requested or found.
	Repack *Repack `json:"repack,omitempty"`
	// Warnings are as in Placement.
	Warnings []string `json:"warnings"`
}

// NodeReason is why one node refuses a pod.
type NodeReason struct {
	Node string `json:"node"`
	// Reasons are equal on all nodes that refuse for the same reason.
	Reasons []string `json:"reasons"`
	// Detail has the figures of this node.
	Detail string `json:"detail"`
}

// Node is one node before and after the run.
type Node struct {
	Name string `json:"name"`
	// Topology is the hash of its NodeTopology, empty without one.
	Topology string `json:"topology"`
	// Pinnable are the CPUs that pods may hold exclusively.
	Pinnable string `json:"pinnable"`
	// Pods counts all pods after the run.
	Pods          int    `json:"pods"`
	Fragmentation Change `json:"fragmentation"`
	// Held are the CPUs that pods hold exclusively after the run.
	Held []Held `json:"held"`
	// Notes are the assumptions made.
	Notes []string `json:"notes"`

	machine *topology.Topology
}

// Change is a fragmentation before and after.
type Change struct {
	Before placement.Fragmentation `json:"before"`
	After  placement.Fragmentation `json:"after"`
}

// Held is what a pod holds exclusively.
type Held struct {
	// Pod is "namespace/name".
	Pod string `json:"pod"`
	// CPUs is a list.
	CPUs cpuset.Set `json:"cpus"`
	// LeftEmpty are the siblings that exclusivity withholds from all pods, a list.
	LeftEmpty cpuset.Set `json:"leftEmpty,omitzero"`
}

// Machine returns the node's topology, to draw it; nil without one.
func (n *Node) Machine() *topology.Topology { return n.machine }

// Grouped returns in one sentence why no node accepted the pod, in the form of kube-scheduler: every reason with its
// number of nodes.
func Grouped(nodes []NodeReason) string {
	counts := map[string]int{}
	for _, n := range nodes {
		for _, reason := range n.Reasons {
			counts[reason]++
		}
	}
	var parts []string
	for reason, count := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(parts)
	if len(nodes) == 0 {
		return "there is no node."
	}
	text := fmt.Sprintf("0/%d nodes are available", len(nodes))
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text + "."
}
