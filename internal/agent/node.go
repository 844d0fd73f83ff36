package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/strategy"
	"github.com/berth-project/berth/internal/unit"
)

const (
	onlineFile   = "sys/devices/system/cpu/online"
	isolatedFile = "sys/devices/system/cpu/isolated"
)

// node watches the CPUs that workloads share.
type node struct {
	root      *hostfs.Root
	ofFile    float64 // the threshold of the agent's file
	reserved  cpuset.Set
	online    cpuset.Set
	exclusive cpuset.Set // of workloads with exclusive CPUs
	pool      burst.Pool
}

func newNode(opts Options) *node {
	n := &node{root: opts.Root}
	n.configure(opts.Config)
	return n
}

// configure takes over what the agent's file says; it was checked when read.
func (n *node) configure(cfg v1alpha1.AgentConfig) {
	n.ofFile = float64(*cfg.CPUBurst.ClusterStrategy.SharePoolThresholdPercent) / 100
	n.pool.Threshold = n.ofFile
	n.reserved, _ = cpuset.Parse(cfg.ReservedCPUs)
}

// follow takes over the threshold of the cluster's strategies. Where they say none,
// that of the agent's file counts.
func (n *node) follow(s *strategy.Strategies) {
	n.pool.Threshold = n.ofFile
	if percent, said := s.SharePoolThresholdPercent(); said {
		n.pool.Threshold = float64(percent) / 100
	}
}

// sample reads how busy the machine was since the sample before and takes out
// what offline groups used in that time. Time on reserved CPUs counts as used:
// the guard must not promise it.
func (n *node) sample(now time.Duration, offline unit.CPUTime) error {
	if err := n.readPool(); err != nil {
		return err
	}
	busy, err := kernel.CPUBusy(n.root)
	if err != nil {
		return fmt.Errorf("node use: %w", err)
	}
	n.pool.Sample(now, busy, offline)
	return nil
}

// readPool finds the CPUs of the shared pool: online, not reserved, not
// exclusive, and not isolated (isolcpus=), where the kernel balances nothing.
func (n *node) readPool() error {
	var err error
	if n.online, err = n.readCPUs(onlineFile); err != nil {
		return err
	}
	isolated, err := n.readCPUs(isolatedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n.pool.CPUs = max(n.online.Difference(n.reserved).Difference(isolated).Difference(n.exclusive).Size(), 1)
	return nil
}

func (n *node) readCPUs(file string) (cpuset.Set, error) {
	data, err := n.root.ReadFile(file)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("CPUs of the node: %w", err)
	}
	set, err := cpuset.Parse(string(data))
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("CPUs of the node in %s: %w", file, err)
	}
	return set, nil
}

func (n *node) status() Node {
	s := Node{Threshold: n.pool.Threshold, PoolCPUs: n.pool.CPUs}
	if use := n.pool.Use(); !math.IsNaN(use) {
		s.UseRatio = use
	}
	return s
}

// share gives the active workload groups what bounds them from outside: the quotas above
// them, and their part of the node's headroom.
func (q *quotas) share(now time.Duration) {
	groups := make([]*burst.Group, 0, len(q.order))
	for _, m := range q.order {
		if m.state != StateActive {
			continue
		}
		m.law.Facts.Cap, m.law.CapGroup, m.ancestorThrottled = q.capOf(m.group, now)
		m.law.Resizing = m.workload.Pod.UID != "" && m.otherSpec()
		groups = append(groups, &m.law)
	}
	q.node.pool.Divide(now, groups)
	for _, m := range q.order {
		if m.state == StateActive && m.law.MustLower() {
			m.due = now
		}
	}
}
