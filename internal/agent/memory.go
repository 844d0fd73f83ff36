package agent

import (
	"reflect"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cluster"
)

// memoryFile is what the agent knows of its cluster, in stateDir. It may be deleted
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

// loadMemory reads what an earlier agent of this boot knew, nothing where there was
// none.
func loadMemory(stateDir, bootID string) (cluster.Memory, error) {
	var r remembered
	if err := loadFile(stateDir, memoryFile, &r); err != nil || r.BootID != bootID {
		return cluster.Memory{}, err
	}
	return r.Memory, nil
}

// memorise writes what the cluster says to disk, if it differs from what is there.
func (c *controller) memorise() {
	if c.around != nil {
		c.keep(c.around.client.Snapshot())
	}
}

// keep writes what a snapshot says. One that does not come from outside says nothing new.
func (c *controller) keep(s *cluster.Snapshot) {
	now := c.opts.Clock()
	told := s.PodsFrom == cluster.APIServer || s.PodsFrom == cluster.Kubelet
	if !told || c.knows(s) || now < c.nextMemory {
		return
	}
	c.nextMemory = now + memoryEvery
	memory := cluster.Memory{Pods: s.Pods, Node: s.Node}
	if err := saveFile(c.opts.Config.StateDir, memoryFile, remembered{c.opts.BootID, memory}); err != nil {
		c.fail("memory of the cluster", err)
		return
	}
	c.memorised = &memory
}

// knows says whether the file has what the cluster says. Before this agent wrote it once
// it has not: there may be pods in it that are gone.
func (s *clusterState) knows(now *cluster.Snapshot) bool {
	m := s.memorised
	return m != nil && slices.Equal(m.Pods, now.Pods) && reflect.DeepEqual(m.Node, now.Node)
}
