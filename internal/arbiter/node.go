package arbiter

import "github.com/berth-project/berth/internal/cpuset"

// Node is the arbiter of one node. What it is told only counts when it is next
// asked, so the order in which it is told things between two questions changes
// nothing. It belongs to one goroutine at a time.
type Node struct {
	facts Facts
}

// New returns a Node without pods.
func New(f Facts) *Node { return &Node{facts: f} }

// SetFacts replaces the facts, for example because a CPU went offline.
func (n *Node) SetFacts(f Facts) { n.facts = f }

// SetPods replaces all pods; those left out are as good as dropped.
func (n *Node) SetPods(_ []Pod) {}

// PutPod adds a pod, or replaces what is known about it. How many CPUs its
// containers have changes with Resize only.
func (n *Node) PutPod(_ Pod) {}

// DropPod says that the pod is gone from the API server. It holds its CPUs until
// no container of it is left.
func (n *Node) DropPod(_ string) {}

// SetContainers replaces all containers. One that Create was asked about and
// nobody saw since may still be on its way: it goes when a second list in turn
// lacks it.
func (n *Node) SetContainers(_ []Container) {}

// Observe adds or replaces what is known about one container.
func (n *Node) Observe(_ Container) {}

// Remove says that the runtime removed a container.
func (n *Node) Remove(_ string) {}

// RemovePod says that the runtime has no container of the pod left.
func (n *Node) RemovePod(_ string) {}

// Create says that the runtime is about to create a container, and returns what
// has to be done first. A pod that requires CPUs which it cannot have is
// ErrRefused, one that was never put ErrUnknownPod.
func (n *Node) Create(_, _, _ string) (Answer, error) { return Answer{}, nil }

// Resize says that the limits of the pod, as last put, count from now on.
func (n *Node) Resize(_ string) (Answer, error) { return Answer{}, nil }

// Wishes returns what every container should have, by pod and container.
func (n *Node) Wishes() []Wish { return nil }

// PodWishes returns what the groups of pods should have, by pod.
func (n *Node) PodWishes() []PodWish { return nil }

// Pool returns the CPUs of everybody who has none of his own.
func (n *Node) Pool() cpuset.Set { return cpuset.Set{} }

// News returns what is to be told since it was last asked.
func (n *Node) News() []News { return nil }

// Snapshot returns what people are shown.
func (n *Node) Snapshot() Snapshot { return Snapshot{} }
