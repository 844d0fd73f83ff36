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
	// Server is the API server, At when it was read.
	Server string    `json:"server"`
	At     time.Time `json:"at"`
	// Nodes are in the order of MoreRoom.
	Nodes []Node `json:"nodes"`
	// Pending are the pods without a node, the most urgent first, and at most MostPending.
	Pending []Pending `json:"pending"`
	// PendingTotal counts all of them.
	PendingTotal int `json:"pendingTotal"`
	// Problems say what could not be read.
	Problems []string `json:"problems"`
}

// MostPending is how many pending pods a Cluster has.
const MostPending = 500

// Node is one node of a cluster.
type Node struct {
	Name string `json:"name"`
	// CPUs are those that pods may have for themselves, FreeCPUs those that none has.
	CPUs     int `json:"cpus"`
	FreeCPUs int `json:"freeCPUs"`
	// L3 counts the L3 domains with such CPUs, FreeL3 those that are free as a whole.
	L3     int `json:"l3"`
	FreeL3 int `json:"freeL3"`
	// Fragmentation is that of the free CPUs in percent.
	Fragmentation int `json:"fragmentation"`
	// Pinned counts the pods with exclusive CPUs, among all Pods.
	Pinned int `json:"pinned"`
	Pods   int `json:"pods"`
	// Obstacle is why no pod is pinned there, empty where some can be.
	Obstacle string `json:"obstacle,omitempty"`
	// Notes say what else keeps pods away, and what is not known.
	Notes []string `json:"notes"`
}

// Pending is one pod that has no node.
type Pending struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Scheduler is the one that the pod asks for, Since when the pod was made.
	Scheduler string    `json:"scheduler"`
	Since     time.Time `json:"since"`
	// CPUs are how many it asks to have for itself, 0 for none.
	CPUs int `json:"cpus"`
	// Why says what keeps it from a node; Node would take it now.
	Why  string `json:"why"`
	Node string `json:"node,omitempty"`
	// Condition is what a scheduler wrote into its status.
	Condition string `json:"condition,omitempty"`
}

// MoreRoom orders nodes: those where pods can be pinned first, then by free CPUs, by whole L3
// domains, and by name.
func MoreRoom(a, b Node) int {
	closed := func(n Node) int { return min(len(n.Obstacle), 1) }
	return cmp.Or(cmp.Compare(closed(a), closed(b)), cmp.Compare(b.FreeCPUs, a.FreeCPUs), cmp.Compare(b.FreeL3, a.FreeL3), strings.Compare(a.Name, b.Name))
}

// Since returns what changed since an earlier Cluster of the same server. Of thousands of nodes few
// change in a second; of the other lists each is there as a whole.
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
