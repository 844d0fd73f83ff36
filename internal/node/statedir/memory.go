package statedir

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/node/cluster"
)

// memoryFile has the agent's knowledge of its cluster. It may be deleted at any time. An agent that then starts while
// neither the API server nor the kubelet answers knows no pod, and allocates nothing.
const memoryFile = "cluster.json"

// memoryEvery is the minimum time between two writes.
const memoryEvery = time.Second

// remembered is the content of the file.
type remembered struct {
	BootID string         `json:"bootID"`
	Memory cluster.Memory `json:"memory"`
}

// Memory is the file of the agent's knowledge of its cluster. The caller serializes its methods.
type Memory struct {
	dir, bootID string
	// written is the content of the file, nil if this agent wrote none: the file may have pods that are gone.
	written *cluster.Memory
	next    time.Duration
}

// NewMemory returns the file of stateDir, which need not exist yet, for this boot.
func NewMemory(stateDir, bootID string) *Memory { return &Memory{dir: stateDir, bootID: bootID} }

// Recall reads the knowledge of an earlier agent of this boot, or nothing if there was none.
func (m *Memory) Recall() (cluster.Memory, error) {
	var r remembered
	if err := Load(m.dir, memoryFile, &r); err != nil || r.BootID != m.bootID {
		return cluster.Memory{}, err
	}
	return r.Memory, nil
}

// Keep writes a snapshot if it differs from the file, at most once a second. It ignores a snapshot that is not from the
// API server or the kubelet. now is monotonic.
func (m *Memory) Keep(s *cluster.Snapshot, now time.Duration) error {
	outside := s.PodsFrom == cluster.APIServer || s.PodsFrom == cluster.Kubelet
	if !outside || m.has(s) || now < m.next {
		return nil
	}
	m.next = now + memoryEvery
	memory := cluster.Memory{Pods: s.Pods, Node: s.Node, ConfigMaps: s.ConfigMaps}
	if err := save(m.dir, memoryFile, remembered{m.bootID, memory}); err != nil {
		return err
	}
	m.written = &memory
	return nil
}

// has reports whether the file equals the snapshot.
func (m *Memory) has(s *cluster.Snapshot) bool {
	w := m.written
	return w != nil && slices.Equal(w.Pods, s.Pods) && reflect.DeepEqual(w.Node, s.Node) && maps.EqualFunc(w.ConfigMaps, s.ConfigMaps, maps.Equal)
}
