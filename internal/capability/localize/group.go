package localize

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	// restEvery is how often a group is checked, and busyEvery how often while its CPUs changed recently or its pages
	// move. settleFor is how long its CPUs have to stay the same.
	restEvery = 10 * time.Second
	busyEvery = time.Second
	settleFor = 10 * time.Second
	// countLag is how long after a pass the kernel may still count moved memory on its former node: it adds up the
	// counts of each CPU every two seconds (mm/memcontrol.c, FLUSH_TIME).
	countLag = 4 * time.Second
)

// errForeignMems says that the memory nodes of a group leave out the local nodes. Another program set them, or Berth
// did for other CPUs.
var errForeignMems = errors.New("cpuset.mems of the group has no local numa")

// errAtTarget says that there is nothing to move.
var errAtTarget = errors.New("the local memory ratio is at its target")

// errNothing says that a walk found nothing to move.
var errNothing = errors.New("no process has pages elsewhere")

// group is one group that opted in.
type group struct {
	// key identifies the container, or the workload, through the life of its processes.
	key    string
	c      observed.Workload
	policy locality.Policy
	pod    *pod
	past   locality.Past

	files  *cgroup.Group // nil while it is not open
	memory *cgroup.Memory
	next   time.Duration // when it is checked next
	cpus   cpuset.Set
	since  time.Duration // since when the CPUs are the same
	local  cpuset.Set    // empty if unknown, or if there is none
	// at is where its memory is, once it was measured. problem is why it cannot be measured.
	at       locality.Memory
	measured bool
	problem  error
	// counted is when the kernel counts everything that the last pass moved, 0 once it was measured then.
	counted time.Duration
	// settled says that a decision was made since its CPUs last changed.
	settled bool
	// wide says that place does not narrow its memory nodes yet.
	wide bool

	pass *pass        // nil while none is under way
	last mover.Report // of the current pass, or else of the last pass
}

// pass is a pass that is under way.
type pass struct {
	key           string // of its order; unique
	from, targets cpuset.Set
	reached       bool // the target was reached, so the pass was canceled
}

func keyOf(c *observed.Workload) string { return c.Name + "@" + c.ID }

func (g *group) ratio() int { return g.at.Ratio(g.local) }

// open opens the files of the group.
func (g *group) open(host *cgroup.Host) (err error) {
	if g.files != nil {
		return nil
	}
	if g.files, err = host.Group(g.c.Group); err != nil {
		return fmt.Errorf("memory of %q: %w", g.c.Group, err)
	}
	if g.memory, err = g.files.Memory(); err != nil {
		g.close()
		return fmt.Errorf("memory of %q: %w", g.c.Group, err)
	}
	return nil
}

// close closes the files of a group that is gone or did not opt in any more.
func (g *group) close() {
	if g.memory != nil {
		_ = g.memory.Close() // it was only read
	}
	if g.files != nil {
		_ = g.files.Close()
	}
	g.files, g.memory, g.measured = nil, nil, false
}

// measure reads on which CPUs the group runs and where its memory is. changed says that the CPUs changed.
func (g *group) measure(host *cgroup.Host, now time.Duration) (changed bool, err error) {
	if err := g.open(host); err != nil {
		return false, err
	}
	cpus, err := g.files.EffectiveCPUs()
	if err != nil {
		return false, fmt.Errorf("CPUs of %q: %w", g.c.Group, err)
	}
	m, err := g.memory.ByNode()
	if err != nil {
		return false, fmt.Errorf("memory of %q: %w", g.c.Group, err)
	}
	g.at, g.measured = locality.Memory{Movable: m.Movable, File: m.File}, true
	if changed = cpus != g.cpus || g.since == 0; changed {
		g.cpus, g.since, g.local, g.settled = cpus, max(now, 1), cpuset.Set{}, false
	}
	return changed, nil
}

// look measures a group, and begins a pass if one is due.
func (s *Groups) look(g *group) {
	g.next = s.now + restEvery
	if g.problem = s.host.err; g.problem != nil {
		return
	}
	changed, err := g.measure(s.opts.Host, s.now)
	if g.problem = err; err != nil {
		s.unmeasured(g, err)
		return
	}
	if changed {
		s.cancel(g)
	}
	if g.pass != nil || s.now-g.since < settleFor {
		g.next = s.now + busyEvery
	}
	if s.now >= g.counted {
		g.counted = 0
	} else {
		g.next = min(g.next, g.counted)
	}
	switch {
	case g.pass != nil:
		if target := g.policy.Target(); target < locality.Full && g.ratio() >= target && !g.pass.reached {
			g.pass.reached = true
			s.opts.Mover.Cancel(g.pass.key)
		}
	case s.now-g.since >= settleFor:
		g.settled = true
		s.decide(g)
	}
}

// unmeasured handles a group that cannot be measured: it is gone, or the host lacks a feature, which is reported to the
// pod once.
func (s *Groups) unmeasured(g *group, err error) {
	s.cancel(g)
	g.close()
	g.since = 0
	if errors.Is(err, cgroup.ErrNoGroup) {
		if g.c.Pod == "" {
			g.past = locality.Past{} // a service that starts again is another service
		}
		return
	}
	r := locality.Result{Outcome: locality.Failed, Err: err}
	if errors.Is(err, cgroup.ErrNoKnob) || len(s.host.nodes) < 2 { // no NUMA
		r = locality.Result{Outcome: locality.Skipped, Err: locality.ErrNoTarget}
	}
	if g.past.Text != g.policy.Text && (!g.policy.ByClass || g.c.Bound) {
		s.end(g, r)
	}
}

// decide begins a pass if one is due, or reports why there is none. It reports a missing local node only for an
// annotation, or for a pod with exclusive CPUs.
func (s *Groups) decide(g *group) {
	local, err := s.host.nodes.Local(g.cpus)
	if !g.c.Bound {
		local, err = cpuset.Set{}, locality.ErrNoTarget
	}
	g.local = local
	if err != nil {
		if (g.past.Text != g.policy.Text || g.past.Local != "") && (!g.policy.ByClass || g.c.Bound) {
			s.end(g, locality.Result{Outcome: locality.Skipped, Err: err})
		}
		return
	}
	if !g.policy.Due(g.past, local.String(), s.now, g.ratio()) {
		return
	}
	if g.ratio() >= g.policy.Target() {
		s.end(g, locality.Result{Outcome: locality.Skipped, Err: fmt.Errorf("%w: %d", errAtTarget, g.ratio())})
		return
	}
	s.begin(g)
}

// begin orders a pass.
func (s *Groups) begin(g *group) {
	mems, err := g.files.EffectiveMems()
	if err != nil {
		s.end(g, locality.Result{Outcome: locality.Failed, Err: err})
		return
	}
	targets := g.local.Intersect(mems)
	if targets.IsEmpty() && g.wide {
		return // Berth is about to give it these nodes: the next check tries again
	}
	if targets.IsEmpty() {
		s.end(g, locality.Result{Outcome: locality.Failed, Err: fmt.Errorf("%w: %s has numa: %s, local numa: %s", errForeignMems, g.c.Group, mems, g.local)})
		return
	}
	s.orders++
	g.pass = &pass{key: fmt.Sprintf("%s#%d", g.key, s.orders), from: g.at.RemoteNodes(g.local), targets: targets}
	g.last = mover.Report{Phase: mover.Queued}
	g.next = s.now + busyEvery
	s.opts.Mover.Order(mover.Order{
		Key: g.pass.key, Group: g.c.Group, Local: g.local, Targets: targets, Nodes: s.host.nodes, Rate: s.rate,
		Unused: Unused(s.opts.Host, s.containers, s.host.nodes),
	})
	s.enter(g.pod, v1alpha1.MemoryLocalityInProgress)
}

// cancel ends the pass of a group without a report: another pass may begin.
func (s *Groups) cancel(g *group) {
	if g.pass != nil {
		s.opts.Mover.Cancel(g.pass.key)
		g.pass = nil
	}
}

// ended handles the last report of a pass.
func (s *Groups) ended(g *group, r mover.Report) {
	p := g.pass
	g.pass = nil
	if errors.Is(r.Err, mover.ErrCanceled) && !p.reached {
		return // the agent stops: the next agent continues
	}
	result := locality.Result{Outcome: r.Outcome, Err: r.Err, From: p.from, To: p.targets}
	if p.reached {
		result.Outcome, result.Err = locality.Completed, nil
	}
	if (errors.Is(r.Err, mover.ErrRights) || errors.Is(r.Err, mover.ErrUnseen)) && !errors.Is(r.Err, mover.ErrMems) {
		result.Err = fmt.Errorf("%w: the agent needs hostPID, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH and no seccomp profile: install deploy/hostpid", r.Err)
	}
	if result.Err == nil && r.Outcome != locality.Completed && !p.reached {
		result.Err = errNothing
	}
	for _, e := range r.Exited {
		result.Exited = append(result.Exited, e.PID)
	}
	if len(r.Moved) > 0 {
		g.counted = s.now + countLag
		g.next = min(g.next, g.counted)
	}
	if _, err := g.measure(s.opts.Host, s.now); err != nil {
		g.problem = err
	}
	s.end(g, result)
	g.past.Well = r.Outcome != locality.Failed
}

// end records how a pass ended.
func (s *Groups) end(g *group, r locality.Result) {
	r.Container = g.c.Container
	if r.Container == "" {
		r.Container = g.c.Name
	}
	g.past = locality.Past{Text: g.policy.Text, Local: g.local.String(), Ended: s.now}
	p := g.pod
	if len(p.results) == 0 {
		p.ended = s.now
	}
	p.results = slices.DeleteFunc(p.results, func(old locality.Result) bool { return old.Container == r.Container })
	p.results = append(p.results, r)
	s.opts.Changed()
}
