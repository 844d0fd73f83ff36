package view

import (
	"cmp"
	"reflect"
	"strings"
	"time"
)

// Cluster is one moment of a cluster, as its API server shows it to a user.
type Cluster struct {
	Format int `json:"v"`
	// Server is the API server; At is when it was read.
	Server string    `json:"server"`
	At     time.Time `json:"at"`
	// Nodes are in the order of MoreRoom.
	Nodes []Node `json:"nodes"`
	// Pending are the pods without a node, the most urgent first, at most MostPending.
	Pending []Pending `json:"pending"`
	// PendingTotal counts all pending pods.
	PendingTotal int `json:"pendingTotal"`
	// Problems say what could not be read.
	Problems []string `json:"problems"`
}

// MostPending is the most pending pods in a Cluster.
const MostPending = 500

// Node is one node of a cluster.
type Node struct {
	Name string `json:"name"`
	// CPUs counts the CPUs that pods can have exclusively; FreeCPUs counts those that pods can still get, as freeCPUs in
	// the status of a NodeTopology: one whole core always stays in the shared pool.
	CPUs     int `json:"cpus"`
	FreeCPUs int `json:"freeCPUs"`
	// L3 counts the L3 domains with such CPUs; FreeL3 counts the completely free domains, 0 if pods can get no CPUs.
	L3     int `json:"l3"`
	FreeL3 int `json:"freeL3"`
	// Fragmentation is the fragmentation of the CPUs that no pod has, in percent.
	Fragmentation int `json:"fragmentation"`
	// Pinned counts the pods with exclusive CPUs; Pods counts all pods.
	Pinned int `json:"pinned"`
	Pods   int `json:"pods"`
	// Obstacle is why the node pins no pod, empty if it can pin pods.
	Obstacle string `json:"obstacle,omitempty"`
	// Notes say what else keeps pods away, and what is unknown.
	Notes []string `json:"notes"`
}

// Pending is one pod that has no node.
type Pending struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Scheduler is the scheduler that the pod names; Since is when the pod was created.
	Scheduler string    `json:"scheduler"`
	Since     time.Time `json:"since"`
	// CPUs is how many exclusive CPUs the pod requests, 0 for none.
	CPUs int `json:"cpus"`
	// Why says what keeps the pod from a node; Node would accept it now.
	Why  string `json:"why"`
	Node string `json:"node,omitempty"`
	// Condition is the text that a scheduler wrote into the pod's status.
	Condition string `json:"condition,omitempty"`
}

// MoreRoom orders nodes: nodes that can pin pods first, then by free CPUs, by completely free L3 domains, and by name.
func MoreRoom(a, b Node) int {
	closed := func(n Node) int { return min(len(n.Obstacle), 1) }
	return cmp.Or(cmp.Compare(closed(a), closed(b)), cmp.Compare(b.FreeCPUs, a.FreeCPUs), cmp.Compare(b.FreeL3, a.FreeL3), strings.Compare(a.Name, b.Name))
}

// Since returns what changed since an earlier Cluster of the same server. Few of thousands of nodes change in a second,
// so the Delta has only the changed nodes. It has other changed lists in full.
func (c *Cluster) Since(before *Cluster) Delta {
	d := Delta{Set: map[string]any{"at": c.At}}
	d.set("server", before.Server, c.Server)
	d.set("pending", before.Pending, c.Pending)
	d.set("pendingTotal", before.PendingTotal, c.PendingTotal)
	d.set("problems", before.Problems, c.Problems)
	var gone Gone
	d.Nodes, gone.Nodes = changed(before.Nodes, c.Nodes, func(n *Node) string { return n.Name }, func(a, b *Node) bool { return reflect.DeepEqual(a, b) })
	if gone.Nodes != nil {
		d.Gone = &gone
	}
	return d
}
