package agent

import (
	"reflect"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/statedir"
)

// memoryEvery is the least distance of two writes.
const memoryEvery = time.Second

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
	if err := statedir.SaveMemory(c.opts.Config.StateDir, c.opts.BootID, memory); err != nil {
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
