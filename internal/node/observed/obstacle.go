package observed

import "time"

// Reasons of Obstacles that suspend Berth (Suspends). As long as one of them applies, all CPU sets stay as they are.
const (
	// KubeletUnknown: the kubelet was not asked yet whether it sets CPU sets, or did not answer.
	KubeletUnknown = "KubeletUnknown"
	// OtherAgent: another agent of Berth holds the node's Lease.
	OtherAgent = "OtherAgent"
	// Starting: the runtime has not reported its containers yet.
	Starting = "Starting"
)

// Other reasons of Obstacles.
const (
	// Restoring: the cluster's configuration asks Berth to restore every original value, and no capability sees a
	// workload.
	Restoring = "Restoring"
	// KubeletCPUManager: the kubelet sets CPU sets.
	KubeletCPUManager = "KubeletCPUManager"
	// NoTopology: the CPUs of the node cannot be read.
	NoTopology = "NoTopology"
	// Koordlet and DRADriver: a pod of another program sets CPU sets.
	Koordlet  = "Koordlet"
	DRADriver = "DRADriver"
	// ForeignCPUSet: an unknown writer sets CPU sets. The sets of containers reveal it: those of two pods in a
	// namespace of administrators and of one pod in another namespace.
	ForeignCPUSet = "ForeignCPUSet"
)

// Obstacle is why Berth sets no CPU sets on this node. The zero value means that Berth sets them.
type Obstacle struct {
	// Reason is one word, for a condition; Message a sentence.
	Reason, Message string
	// Lasting is true once a suspending Obstacle has existed for BriefFor. Only then events report it.
	Lasting bool
}

// BriefFor is how long a suspending Obstacle may exist before events tell pods that ask for CPUs why they have none.
const BriefFor = time.Minute

// Suspends reports whether the owner of CPU sets is not known yet, or another agent decides: Berth then sets nothing,
// and restores nothing.
func (o Obstacle) Suspends() bool {
	return o.Reason == KubeletUnknown || o.Reason == OtherAgent || o.Reason == Starting
}

// Restores reports whether everything is restored, and nothing written.
func (o Obstacle) Restores() bool { return o.Reason == Restoring }

// IsBrief reports whether the Obstacle suspends and no event reports it yet.
func (o Obstacle) IsBrief() bool { return o.Suspends() && !o.Lasting }
