package kubelet

import (
	"cmp"
	"errors"
	"time"

	"github.com/berth-project/berth/internal/cpuset"
)

// Reasons of an Obstacle.
const (
	// ReasonUnknown: the kubelet was not asked yet, or could not be.
	ReasonUnknown = "KubeletUnknown"
	// ReasonCPUManager: the kubelet sets CPU sets.
	ReasonCPUManager = "KubeletCPUManager"
)

// Obstacle is why Berth must not set CPU sets on this node, as far as the kubelet is
// concerned. The zero value is that it may.
type Obstacle struct {
	// Reason is one word, for a condition; Message a sentence.
	Reason, Message string
	// Lasting says of ReasonUnknown that the kubelet has been silent for long.
	Lasting bool
}

// Said is what of the kubelet's configuration concerns CPUs and memory nodes, as the
// agent's checkpoint has it.
type Said struct {
	CPUManagerPolicy    string `json:"cpuManagerPolicy"`
	MemoryManagerPolicy string `json:"memoryManagerPolicy,omitempty"`
	ReservedCPUs        string `json:"reservedCPUs"`
}

// Knowledge is what is known of the kubelet's configuration, reading by reading. The zero
// value is that nothing was read yet. It is not safe for concurrent use.
type Knowledge struct {
	// Config is what the kubelet said last, the zero value where it said nothing.
	Config Config
	// Devices are those that the kubelet said last.
	Devices []Device
	// Memory is what the memory manager gave to pods, as the kubelet said last.
	Memory []Memory
	// MemoryErr is why the kubelet did not say it at the last reading.
	MemoryErr error
	// gone is how many readings in turn lacked one of their resources, emptied how many had no memory.
	gone, emptied int
	known         bool
	// err is why it is not known. silentSince is when the kubelet's silence began, silent
	// that this is long ago. err is the first error until then, and from then on the one of
	// that moment.
	err         error
	silentSince time.Duration
	silent      bool
}

// Take takes over what was read at now, and says whether that may change anything. Where
// it is not whole, what it lacks stays as it was last known. A kubelet that said something
// once may be silent: it is being started anew, and what it said last counts. After a
// silence from the beginning for as long as brief, the reason is reported once: not what
// was wrong while the kubelet started, but what is wrong since.
func (k *Knowledge) Take(r Reading, now, brief time.Duration) (changed bool) {
	switch {
	case r.Err == nil:
		if !r.Whole {
			if r.Config.ReservedSystemCPUs.IsEmpty() {
				r.Config.ReservedSystemCPUs = k.Config.ReservedSystemCPUs
			}
			r.Config.MemoryManagerPolicy = cmp.Or(r.Config.MemoryManagerPolicy, k.Config.MemoryManagerPolicy)
		}
		k.Config, k.err, k.silent = r.Config, nil, false
	case k.known && k.err == nil:
		return false
	case k.err == nil:
		k.err, k.silentSince = r.Err, now
	case !k.silent && now-k.silentSince >= brief:
		k.silent, k.err = true, r.Err
	}
	k.known = true
	return true
}

// Outdated says that a mounted file of the kubelet is the old one for ever: only a new
// container has the new one. Where the kubelet sets CPU sets it replaces its state with
// every pod, and nothing depends on it.
func (k *Knowledge) Outdated(r Reading) bool {
	return errors.Is(r.Err, ErrReplaced) && !k.SetsCPUs()
}

// Known says whether the kubelet was asked, with or without success.
func (k *Knowledge) Known() bool { return k.known }

// Said is what to remember, nil where nothing is known.
func (k *Knowledge) Said() *Said {
	if !k.known || k.err != nil {
		return nil
	}
	return &Said{
		CPUManagerPolicy: k.Config.CPUManagerPolicy, MemoryManagerPolicy: k.Config.MemoryManagerPolicy,
		ReservedCPUs: k.Config.ReservedSystemCPUs.String(),
	}
}

// Recall takes over what an earlier agent of this boot remembered, nil for nothing. A
// kubelet that can be asked says it anew.
func (k *Knowledge) Recall(s *Said) {
	if s == nil {
		return
	}
	reserved, err := cpuset.Parse(s.ReservedCPUs)
	if err != nil {
		return
	}
	k.Config.CPUManagerPolicy, k.Config.MemoryManagerPolicy = s.CPUManagerPolicy, s.MemoryManagerPolicy
	k.Config.ReservedSystemCPUs, k.known = reserved, true
}

// Obstacle is what of the kubelet's configuration keeps Berth from setting CPU sets.
func (k *Knowledge) Obstacle() Obstacle {
	switch {
	case !k.known:
		return Obstacle{Reason: ReasonUnknown, Message: "the kubelet was not asked yet"}
	case k.silent:
		return Obstacle{Reason: ReasonUnknown, Message: "whether the kubelet sets CPU sets could not be found out: " + k.err.Error(), Lasting: true}
	case k.err != nil:
		return Obstacle{Reason: ReasonUnknown, Message: "whether the kubelet sets CPU sets is not known: " + k.err.Error()}
	case k.SetsCPUs():
		return Obstacle{Reason: ReasonCPUManager, Message: "the kubelet's cpuManagerPolicy is " + k.Config.CPUManagerPolicy + ": it sets the CPU sets of this node"}
	}
	return Obstacle{}
}

// MemsOwner says that the kubelet's configuration gives the memory nodes of containers to
// the kubelet, "" where it does not.
func (k *Knowledge) MemsOwner() string {
	if policy := k.Config.MemoryManagerPolicy; policy != "" && policy != noMemoryManager {
		return "the kubelet's memoryManagerPolicy is " + policy + ": it sets the memory nodes, Berth sets CPUs only"
	}
	return ""
}

// SetsCPUs says that the kubelet, by what it said last, sets CPU sets.
func (k *Knowledge) SetsCPUs() bool {
	return k.Config.CPUManagerPolicy != "" && k.Config.CPUManagerPolicy != "none"
}
