package statedir

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cluster"
)

// memoryFile is what the agent knows of its cluster. It may be deleted
// at any time: an agent that starts while neither the API server nor the kubelet
// answers then knows of no pod, and gives out nothing.
const memoryFile = "cluster.json"

// memoryEvery is the least distance of two writes.
const memoryEvery = time.Second

// remembered is the file.
type remembered struct {
	BootID string         `json:"bootID"`
	Memory cluster.Memory `json:"memory"`
}

// Memory is the file of what the agent knows of its cluster. The caller serializes its
// methods.
type Memory struct {
	dir, bootID string
	// written is what is in the file, nil where this agent wrote none: there may be pods
	// in it that are gone.
	written *cluster.Memory
	next    time.Duration
}

// NewMemory returns the file of stateDir, which need not be there yet, for this boot.
func NewMemory(stateDir, bootID string) *Memory { return &Memory{dir: stateDir, bootID: bootID} }

// Recall reads what an earlier agent of this boot knew, nothing where there was
// none.
func (m *Memory) Recall() (cluster.Memory, error) {
	var r remembered
	if err := Load(m.dir, memoryFile, &r); err != nil || r.BootID != m.bootID {
		return cluster.Memory{}, err
	}
	return r.Memory, nil
}

// Keep writes what a snapshot says, if it differs from what is there, and once a second at
// most. A snapshot that does not come from outside says nothing new. now is monotonic.
func (m *Memory) Keep(s *cluster.Snapshot, now time.Duration) error {
	outside := s.PodsFrom == cluster.APIServer || s.PodsFrom == cluster.Kubelet
	if !outside || m.has(s) || now < m.next {
		return nil
	}
	m.next = now + memoryEvery
	memory := cluster.Memory{Pods: s.Pods, Node: s.Node, ConfigMaps: s.ConfigMaps}
	if err := Save(m.dir, memoryFile, remembered{m.bootID, memory}); err != nil {
		return err
	}
	m.written = &memory
	return nil
}

// has says whether the file has what a snapshot says.
func (m *Memory) has(s *cluster.Snapshot) bool {
	w := m.written
	return w != nil && slices.Equal(w.Pods, s.Pods) && reflect.DeepEqual(w.Node, s.Node) && maps.EqualFunc(w.ConfigMaps, s.ConfigMaps, maps.Equal)
}
