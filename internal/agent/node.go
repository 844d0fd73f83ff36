package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
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
	exclusive cpuset.Set // of workloads with CPUs of their own
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

// readPool finds the CPUs of the shared pool: online, not reserved, not somebody's
// own, and not isolated (isolcpus=), where the kernel balances nothing.
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

// share tells the active members what bounds them from outside: the quotas above
// them, and their part of the node's headroom.
func (c *controller) share(now time.Duration) {
	groups := make([]*burst.Group, 0, len(c.order))
	for _, m := range c.order {
		if m.state != StateActive {
			continue
		}
		m.law.Facts.Cap, m.law.CapGroup, m.ancestorThrottled = c.capOf(m.group, now)
		m.law.Resizing = m.workload.Pod.UID != "" && m.otherSpec()
		groups = append(groups, &m.law)
	}
	c.node.pool.Divide(now, groups)
	for _, m := range c.order {
		if m.state == StateActive && m.law.MustLower() {
			m.due = now
		}
	}
}

// ancestor is a group above a member's, read once a second for all of them.
type ancestor struct {
	group      *cgroup.Group
	quota      unit.CPUs
	throttled  uint64
	lastNeeded time.Duration
}

// capOf returns the smallest quota on the path above group as a rate, which
// group has it, and how many periods the ancestors were throttled.
func (c *controller) capOf(group *cgroup.Group, now time.Duration) (limit unit.CPUs, where string, throttled uint64) {
	limit = unit.CPUs(math.Inf(1))
	for _, path := range group.Ancestors() {
		a := c.ancestor(path)
		if a == nil {
			continue
		}
		a.lastNeeded = now
		throttled += a.throttled
		if c.pods[path] != nil {
			continue // it rises with what is below it
		}
		if a.quota < limit {
			limit, where = a.quota, path
		}
	}
	return limit, where, throttled
}

// ancestor returns the group at path, opened; nil when it has no CPU limit to read.
func (c *controller) ancestor(path string) *ancestor {
	if a, ok := c.ancestors[path]; ok {
		return a
	}
	group, err := c.host.Group(path)
	if err != nil {
		return nil
	}
	a := &ancestor{group: group, quota: unit.CPUs(math.Inf(1))}
	c.ancestors[path] = a
	c.readAncestor(path, a)
	return c.ancestors[path]
}

// readAncestor refreshes one ancestor. The quota of a pod with bursting containers is
// not asked for, see capOf. A member's own raised quota does not count as room for the
// groups below: it may fall back to its limit at any look.
func (c *controller) readAncestor(path string, a *ancestor) {
	if c.pods[path] == nil {
		bandwidth, err := a.group.Bandwidth()
		if err != nil {
			// Removed, and perhaps made again: it is opened anew when asked for.
			_ = a.group.Close() // read only: nothing can be lost
			delete(c.ancestors, path)
			return
		}
		a.quota = unit.Rate(bandwidth.Quota, bandwidth.Period)
	}
	if m := c.byPath[path]; m != nil && m.state == StateActive {
		a.quota = min(a.quota, m.law.Facts.Limit())
	}
	if t, err := a.group.Throttling(); err == nil {
		a.throttled = t.Throttled
	}
}

// readAncestors refreshes all ancestors and closes those nobody asks about.
func (c *controller) readAncestors(now time.Duration) {
	for path, a := range c.ancestors {
		if now-a.lastNeeded > 5*time.Second && a.lastNeeded != 0 {
			_ = a.group.Close() // read only: nothing can be lost
			delete(c.ancestors, path)
			continue
		}
		c.readAncestor(path, a)
	}
}
