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
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/locality"
	"github.com/berth-project/berth/internal/mover"
)

// Orders asks for passes, by key. One that is under way is not asked for twice.
type Orders interface {
	Order(o mover.Order)
	Cancel(key string)
}

// Reports say what became of orders. One that is done stays until it is forgotten.
type Reports interface {
	Reports() []mover.Report
	Forget(key string)
}

// Mover moves pages. Run works until the context ends, and then ends within one call.
type Mover interface {
	Orders
	Reports
	Run(ctx context.Context) error
}

// Options is what Groups need. Every field but Mover is required.
type Options struct {
	Root *hostfs.Root
	Host *cgroup.Host
	// Clock is monotonic and counts from boot, Now is the time of day.
	Clock func() time.Duration
	Now   func() time.Time
	Log   *slog.Logger
	// Mover is the one of package mover, unless it is given.
	Mover Mover
	// Changed is called when what has to be remembered changed.
	Changed func()
}

// Groups are the groups whose memory moves to their CPUs. It is for one goroutine at a time,
// but for Run.
type Groups struct {
	opts Options
	// now is the time of the round, began that of the first.
	now, began time.Duration
	// containers are those of the last round, off why none of them counts.
	containers []capability.Container
	off        string
	acks       bool  // ACK's koordlet moves pages here, and writes the annotations
	rate       int64 // bytes a second of all together, 0: no limit
	host       host
	groups     map[string]*group // by path
	order      []*group          // by name
	pods       map[string]*pod   // by UID
	saved      state             // of an earlier agent
	decision   capability.Decision
	orders     int // how many there were
	// moved is what passes that ended did, under is the last report of each other one: one
	// that was canceled, too, until the mover has ended it.
	moved totals
	under map[string]mover.Report
}

// New returns Groups of which none is known. Without options they only describe themselves.
func New(o Options) *Groups {
	if o.Mover == nil && o.Root != nil {
		o.Mover = mover.New(mover.Options{Root: o.Root, Host: o.Host, Clock: o.Clock, Log: o.Log})
	}
	return &Groups{opts: o, groups: map[string]*group{}, pods: map[string]*pod{}, moved: totals{bytes: map[way]int64{}}}
}

// Run has the mover work until the context ends.
func (s *Groups) Run(ctx context.Context) error { return s.opts.Mover.Run(ctx) }

// leastLooks is how many groups one round looks at, at least: the runtime waits meanwhile, so
// that groups which came together are looked at one after the other.
const leastLooks = 8

// due returns the groups that are looked at in this round: those that wait longest.
func (s *Groups) due() []*group {
	due := slices.DeleteFunc(slices.Clone(s.order), func(g *group) bool { return s.now < g.next })
	slices.SortStableFunc(due, func(a, b *group) int { return cmp.Compare(a.next, b.next) })
	return due[:min(len(due), leastLooks+len(s.order)/int(restEvery/time.Second))]
}

// Decide implements capability.Decider. It desires no setting: pages are no files.
func (s *Groups) Decide(n *capability.Node) capability.Decision {
	if s.began == 0 {
		s.began = n.Now
	}
	s.now, s.decision = n.Now, capability.Decision{}
	s.acks = strings.HasPrefix(n.Koordlet, "kube-system/") // that of Koordinator moves none
	if off := s.offOf(n); off != s.off || !capability.SameList(s.containers, n.Containers) {
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

// offOf says why no page is moved here, "" where pages are.
func (s *Groups) offOf(n *capability.Node) string {
	switch {
	case !*n.Config.Locality.Enabled:
		return "switched off (locality.enabled: false)"
	case s.acks:
		return "left to ACK's koordlet (pod " + n.Koordlet + ")"
	}
	return ""
}

// adopt makes the groups those of the containers that opted in.
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
			delete(s.saved.Passes, keyOf(c)) // asked again, it is another one
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

// adoptPods takes over which pods have a container that runs.
func (s *Groups) adoptPods(here map[string]bool) {
	for uid, p := range s.pods {
		if here[uid] {
			p.seen = s.now
		} else if p.results = nil; s.now-p.seen > keepFor {
			delete(s.pods, uid) // until then its container may only wait to be started anew
		}
		if len(p.groups) == 0 && here[uid] && !s.acks && p.Phase != "" && p.Phase != v1alpha1.MemoryLocalityClosed {
			s.enter(p, v1alpha1.MemoryLocalityClosed)
		}
	}
}

// take takes over what is known of the container of a group. What is live counts at once.
func (s *Groups) take(g *group, c *capability.Container, policy locality.Policy) {
	if g.policy.Text != policy.Text {
		s.cancel(g)
	}
	if g.policy.Text != policy.Text || g.c.Bound != c.Bound {
		g.next = 0
	}
	g.c, g.policy = *c, policy
}

// concerns says whether anything is asked for a container, or was.
func (s *Groups) concerns(c *capability.Container) bool {
	_, asked := c.Annotations[v1alpha1.AnnotationMemoryLocality]
	_, was := s.saved.Pods[c.PodUID]
	return asked || was || c.QOS.MemoryLocality != nil || s.pods[c.PodUID] != nil
}

// policyOf returns what is asked for a container, and reports what is wrong with that once.
func (s *Groups) policyOf(c *capability.Container, p *pod) locality.Policy {
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

// takeReports takes what the mover reports.
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
