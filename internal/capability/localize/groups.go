package localize

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/node/observed"
)

// Orders orders and cancels passes, by key. An order is ignored while a pass of its key is under way.
type Orders interface {
	Order(o mover.Order)
	Cancel(key string)
}

// Reports returns the results of orders. The report of a finished order remains until it is forgotten.
type Reports interface {
	Reports() []mover.Report
	Forget(key string)
}

// Mover moves pages. Run works until the context ends, and then returns within one call.
type Mover interface {
	Orders
	Reports
	Run(ctx context.Context) error
}

// Options has the dependencies of Groups. Every field but Mover is required.
type Options struct {
	Root *hostfs.Root
	Host *cgroup.Host
	// Clock is monotonic and counts from boot, Now is the time of day.
	Clock func() time.Duration
	Now   func() time.Time
	Log   *slog.Logger
	// Mover is a mover of package mover if it is nil.
	Mover Mover
	// Changed is called when the state that has to be remembered changed.
	Changed func()
}

// Groups has the groups whose memory moves to their CPUs. It is for one goroutine at a time, except for Run.
type Groups struct {
	opts Options
	// now is the time of the round, began the time of the first round.
	now, began time.Duration
	// containers are those of the last round, off is why no page of theirs may move.
	containers []observed.Workload
	off        string
	acks       bool  // ACK's koordlet moves pages here, and writes the annotations
	rate       int64 // bytes per second of all passes together, 0: unlimited
	host       host
	groups     map[string]*group // by path
	order      []*group          // by name
	pods       map[string]*pod   // by UID
	saved      state             // of an earlier agent
	decision   capability.Decision
	orders     int // how many orders there were
	// moved is the sum of the passes that ended. under has the last report of each other pass, including a canceled
	// pass until the mover has ended it.
	moved totals
	under map[string]mover.Report
}

// New returns Groups without any group. Without options it only describes itself.
func New(o Options) *Groups {
	if o.Mover == nil && o.Root != nil {
		o.Mover = mover.New(mover.Options{Root: o.Root, Host: o.Host, Clock: o.Clock, Log: o.Log})
	}
	return &Groups{opts: o, groups: map[string]*group{}, pods: map[string]*pod{}, moved: totals{bytes: map[way]int64{}}}
}

// Run runs the mover until the context ends.
func (s *Groups) Run(ctx context.Context) error { return s.opts.Mover.Run(ctx) }

// leastLooks is how many groups one round may check in any case. The runtime waits during a round, so groups that came
// together are checked in several rounds.
const leastLooks = 8

// due returns the groups that this round checks: the groups that are overdue the longest.
func (s *Groups) due() []*group {
	due := slices.DeleteFunc(slices.Clone(s.order), func(g *group) bool { return s.now < g.next })
	slices.SortStableFunc(due, func(a, b *group) int { return cmp.Compare(a.next, b.next) })
	return due[:min(len(due), leastLooks+len(s.order)/int(restEvery/time.Second))]
}

// Decide implements capability.Decider. It desires no setting: pages are not files.
func (s *Groups) Decide(n *capability.Node) capability.Decision {
	if s.began == 0 {
		s.began = n.Now
	}
	s.now, s.decision = n.Now, capability.Decision{}
	s.acks = strings.HasPrefix(n.Koordlet, "kube-system/") // Koordinator's own koordlet moves none
	if off := s.offOf(n); off != s.off || !observed.SameList(s.containers, n.Containers) {
		s.off, s.containers = off, n.Containers
		s.adopt()
	}
	s.rate = *n.Config.Locality.MaxBandwidthMiBps << 20
	if len(s.order) > 0 {
		s.host.read(s.opts.Root, n.Topology)
	}
	s.takeReports()
	for path, g := range s.groups {
		_, g.wide = n.Wide[path]
	}
	for _, g := range s.due() {
		s.look(g)
	}
	for _, g := range s.order {
		s.conclude(g.pod)
	}
	n.Pages = s.pages()
	return s.decision
}

// offOf returns why no page is moved on this host, "" if pages are moved.
func (s *Groups) offOf(n *capability.Node) string {
	switch {
	case !*n.Config.Locality.Enabled:
		return "switched off (locality.enabled: false)"
	case s.acks:
		return "left to ACK's koordlet (pod " + n.Koordlet + ")"
	}
	return ""
}

// adopt replaces the groups by those of the containers that opted in.
func (s *Groups) adopt() {
	before := s.groups
	s.groups, s.order = map[string]*group{}, nil
	here := map[string]bool{}
	for _, p := range s.pods {
		p.groups = nil
	}
	for i := range s.containers {
		c := &s.containers[i]
		here[c.PodUID] = true
		if !s.concerns(c) {
			continue
		}
		p := s.podOf(c.PodUID)
		policy := s.policyOf(c, p)
		if s.off != "" || !policy.BestEffort() {
			delete(s.saved.Passes, keyOf(c)) // a later request is a new one
			continue
		}
		g := before[c.Group]
		if g == nil || g.key != keyOf(c) {
			g = &group{key: keyOf(c), past: s.saved.Passes[keyOf(c)]}
		} else {
			delete(before, c.Group)
		}
		s.take(g, c, policy)
		g.pod, p.groups, s.groups[c.Group] = p, append(p.groups, g), g
	}
	for _, g := range before {
		s.cancel(g)
		g.close()
	}
	s.order = slices.SortedFunc(maps.Values(s.groups), func(a, b *group) int { return strings.Compare(a.c.Name, b.c.Name) })
	s.adoptPods(here)
}

// adoptPods records which pods have a running container.
func (s *Groups) adoptPods(here map[string]bool) {
	for uid, p := range s.pods {
		if here[uid] {
			p.seen = s.now
		} else if p.results = nil; s.now-p.seen > keepFor {
			delete(s.pods, uid) // until then its container may be about to restart
		}
		if len(p.groups) == 0 && here[uid] && !s.acks && p.Phase != "" && p.Phase != v1alpha1.MemoryLocalityClosed {
			s.enter(p, v1alpha1.MemoryLocalityClosed)
		}
	}
}

// take updates the container and the policy of a group. A change of the policy or of Bound takes effect at once.
func (s *Groups) take(g *group, c *observed.Workload, policy locality.Policy) {
	if g.policy.Text != policy.Text {
		s.cancel(g)
	}
	if g.policy.Text != policy.Text || g.c.Bound != c.Bound {
		g.next = 0
	}
	g.c, g.policy = *c, policy
}

// concerns reports whether anything is, or was, requested for a container.
func (s *Groups) concerns(c *observed.Workload) bool {
	_, asked := c.Annotations[v1alpha1.AnnotationMemoryLocality]
	_, was := s.saved.Pods[c.PodUID]
	return asked || was || c.QOS.MemoryLocality != nil || s.pods[c.PodUID] != nil
}

// policyOf returns the policy of a container, and reports each problem with it once.
func (s *Groups) policyOf(c *observed.Workload, p *pod) locality.Policy {
	policy, refused, unknown := locality.PolicyOf(c.Annotations, c.QOS.MemoryLocality, c.QOSSource)
	text := ""
	if err := append(refused, unknown...).Err(); err != nil {
		text = err.Error()
	}
	if text != p.invalid && text != "" {
		s.report(p, v1alpha1.EventInvalidPolicy, text, true)
	}
	p.invalid = text
	return policy
}

func (s *Groups) report(p *pod, reason, text string, warning bool) {
	s.decision.Events = append(s.decision.Events, capability.Event{PodUID: p.uid, Reason: reason, Text: text, Warning: warning})
}

// takeReports reads the mover's reports.
func (s *Groups) takeReports() {
	s.under = map[string]mover.Report{}
	for _, r := range s.opts.Mover.Reports() {
		i := slices.IndexFunc(s.order, func(g *group) bool { return g.pass != nil && g.pass.key == r.Key })
		if s.under[r.Key] = r; r.Phase == mover.Done {
			delete(s.under, r.Key)
			s.moved.add(r)
			s.opts.Mover.Forget(r.Key)
		}
		if i < 0 {
			continue
		}
		s.order[i].last = r
		if r.Phase == mover.Done {
			s.ended(s.order[i], r)
		}
	}
}

// pages returns where the pages of the groups are. A group that cannot be measured holds nothing back.
func (s *Groups) pages() map[string]capability.Pages {
	all := make(map[string]capability.Pages, len(s.order))
	for path, g := range s.groups {
		if g.problem != nil {
			continue
		}
		p := capability.Pages{Moving: g.pass != nil, Measured: g.measured, PerNode: g.at.Movable}
		if g.past.Well {
			p.Home = g.past.Local
		}
		all[path] = p
	}
	return all
}
