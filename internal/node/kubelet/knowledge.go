package kubelet

import (
	"cmp"
	"errors"
	"time"

	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Said is the part of the kubelet's configuration about CPUs and memory nodes, for the agent's checkpoint.
type Said struct {
	CPUManagerPolicy    string `json:"cpuManagerPolicy"`
	MemoryManagerPolicy string `json:"memoryManagerPolicy,omitempty"`
	ReservedCPUs        string `json:"reservedCPUs"`
}

// Knowledge accumulates the kubelet's configuration, reading by reading. The zero value means that nothing was read
// yet. It is not safe for concurrent use.
type Knowledge struct {
	// Config is the kubelet's last answer, the zero value without one.
	Config Config
	// Devices are the devices in the kubelet's last answer.
	Devices []Device
	// Memory is the memory manager's allocation to pods, in the kubelet's last answer.
	Memory []Memory
	// MemoryErr is why the last reading had no Memory.
	MemoryErr error
	// gone counts successive readings without a resource of Devices, emptied those without memory.
	gone, emptied int
	known         bool
	// err is why the configuration is unknown. silentSince is when the kubelet's silence began. silent is true once the
	// silence has lasted for brief (see Take). Until then err is the first error, and from then on the error of that
	// moment.
	err         error
	silentSince time.Duration
	silent      bool
}

// Take records what was read at now, and reports whether that may change anything. Values that an incomplete reading
// lacks remain as last known. A kubelet that answered once may be silent: it is restarting, and its last answer
// remains. After a silence of brief from the beginning, Take reports the reason once: the present error, not an error
// of the kubelet's start.
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

// Outdated reports whether a mounted file of the kubelet remains outdated: only a new container sees the new file. A
// kubelet that sets CPU sets replaces its state with every pod, and nothing depends on it, so Outdated is false.
func (k *Knowledge) Outdated(r Reading) bool {
	return errors.Is(r.Err, ErrReplaced) && !k.SetsCPUs()
}

// Known reports whether the kubelet was asked, with or without success.
func (k *Knowledge) Known() bool { return k.known }

// Said returns the values to remember, nil if nothing is known.
func (k *Knowledge) Said() *Said {
	if !k.known || k.err != nil {
		return nil
	}
	return &Said{
		CPUManagerPolicy: k.Config.CPUManagerPolicy, MemoryManagerPolicy: k.Config.MemoryManagerPolicy,
		ReservedCPUs: k.Config.ReservedSystemCPUs.String(),
	}
}

// Recall restores what an earlier agent of this boot remembered, nil for nothing. The next answer of the kubelet
// replaces it.
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

// Obstacle returns why the kubelet's configuration prevents Berth from setting CPU sets.
func (k *Knowledge) Obstacle() observed.Obstacle {
	switch {
	case !k.known:
		return observed.Obstacle{Reason: observed.KubeletUnknown, Message: "the kubelet was not asked yet"}
	case k.silent:
		return observed.Obstacle{Reason: observed.KubeletUnknown, Message: "whether the kubelet sets CPU sets could not be found out: " + k.err.Error(), Lasting: true}
	case k.err != nil:
		return observed.Obstacle{Reason: observed.KubeletUnknown, Message: "whether the kubelet sets CPU sets is not known: " + k.err.Error()}
	case k.SetsCPUs():
		return observed.Obstacle{Reason: observed.KubeletCPUManager, Message: "the kubelet's cpuManagerPolicy is " + k.Config.CPUManagerPolicy + ": it sets the CPU sets of this node"}
	}
	return observed.Obstacle{}
}

// MemsOwner returns why the kubelet manages the memory nodes of containers, "" if it does not.
func (k *Knowledge) MemsOwner() string {
	if policy := k.Config.MemoryManagerPolicy; policy != "" && policy != noMemoryManager {
		return "the kubelet's memoryManagerPolicy is " + policy + ": it sets the memory nodes, Berth sets CPUs only"
	}
	return ""
}

// SetsCPUs reports whether the kubelet, by its last answer, sets CPU sets.
func (k *Knowledge) SetsCPUs() bool {
	return k.Config.CPUManagerPolicy != "" && k.Config.CPUManagerPolicy != "none"
}
