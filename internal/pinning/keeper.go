package pinning

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

const (
	// reassert is how often a settled group is looked at.
	reassert = 15 * time.Second
	// firstRetry and lastRetry bound how soon what failed is tried again.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// watchFor is how long a touched group is looked at every second: the kubelet
	// writes the group of a pod some time after those of its containers.
	watchFor = 5 * time.Second
)

// Options are what a Keeper works with.
type Options struct {
	// Host has the groups.
	Host *cgroup.Host
	// Journal is the one that the Applier writes to.
	Journal *journal.Journal
	// Applier changes the host.
	Applier *apply.Applier
	// Systemd says that systemd runs here and the Applier can reach it: lists of
	// its units are then set through it, where that is of use.
	Systemd bool
}

// Keeper keeps wishes fulfilled. It is for one goroutine at a time.
type Keeper struct {
	opts    Options
	version int // of the cpuset hierarchy, 0 without one
	wishes  map[string]Wish
	members map[string]*member
	// order has the paths of the members, groups what was last reported of them.
	order  []string
	groups []Status
	// stale says that wishes changed since the last pass, expandAt when the groups
	// below are looked for again, leftAt when something that could not be put back
	// is tried again.
	stale            bool
	expandAt, leftAt time.Duration
	left             map[plan.Target]leftover
	now              time.Duration
	report           Report
	between          Report // what came between two passes
}

// New returns a Keeper without wishes. Until the first Want it puts nothing back:
// it does not know yet what is wished.
func New(opts Options) *Keeper {
	k := &Keeper{opts: opts, wishes: map[string]Wish{}, members: map[string]*member{}, left: map[plan.Target]leftover{}}
	if hier, err := opts.Host.Hierarchy(cgroup.CPUSet); err == nil {
		k.version = hier.Version
	}
	return k
}

// Want replaces all wishes. Nothing is done before the next Pass, which also puts
// back what is in the journal and not wished.
func (k *Keeper) Want(wishes []Wish) {
	k.wishes = make(map[string]Wish, len(wishes))
	for _, w := range wishes {
		k.wishes[w.Group] = w
	}
	k.stale = true
	k.settle(k.wishes)
}

// Touch says that somebody has just written to a group, or is about to: the next Pass
// looks at it, and for some seconds each one does that comes a second after the last.
// As long as nothing changes that costs the reads of a settled group. A group without a
// wish is left out.
func (k *Keeper) Touch(group string) {
	if m := k.members[group]; m != nil {
		m.due, m.wait, m.watched = k.now, 0, k.now+watchFor
	}
}

// settle makes the members those of the wishes.
func (k *Keeper) settle(wishes map[string]Wish) {
	for path, m := range k.members {
		if _, wished := wishes[path]; !wished {
			k.concede(m)
			_ = m.close() // only read through
			delete(k.members, path)
		}
	}
	for _, w := range wishes {
		k.member(w)
	}
	k.order = slices.Sorted(maps.Keys(k.members))
	k.expandAt = k.now
}

// member returns the member of a wish, with that wish.
func (k *Keeper) member(w Wish) *member {
	m := k.members[w.Group]
	if m == nil {
		m = newMember(w)
		k.members[w.Group] = m
	}
	m.take(w)
	return m
}

// expand adds wishes for the groups below those that ask for it.
func (k *Keeper) expand() {
	if k.version != 1 || k.now < k.expandAt {
		return
	}
	all := maps.Clone(k.wishes)
	for _, w := range k.wishes {
		for _, path := range k.below(w) {
			if _, own := k.wishes[path]; !own {
				b := w
				b.Group, b.Below, b.NoQuota, b.Limit = path, false, false, 0
				all[path] = b
			}
		}
	}
	if len(all) > len(k.wishes) || len(k.members) > len(all) {
		k.settle(all)
	}
	k.expandAt = k.now + reassert
}

// below returns the groups below one whose wish is for them, too.
func (k *Keeper) below(w Wish) []string {
	if !w.Below {
		return nil
	}
	g, err := k.opts.Host.Group(w.Group)
	if err != nil {
		return nil // its own look says so
	}
	defer g.Close()
	below, err := g.Below(cgroup.CPUSet)
	if err != nil {
		return nil
	}
	return below
}

// unit is the systemd unit through which the lists of a group are set. On v1
// systemd never writes a cpuset.
func (k *Keeper) unit(path string) string {
	if !k.opts.Systemd || k.version != 2 {
		return ""
	}
	return UnitOf(path)
}

// Pass looks at what is due, does what is needed and says when to come back at the
// latest. now never goes backwards. The groups of the report belong to the Keeper and
// are not to be changed. A pass when nothing is due costs next to nothing.
func (k *Keeper) Pass(now time.Duration) (Report, time.Duration) {
	k.now, k.report, k.between = now, k.between, Report{}
	k.expand()
	var due []*member
	for _, path := range k.order {
		if m := k.members[path]; m.dirty || m.deferred || now >= m.due {
			due = append(due, m)
		}
	}
	if len(due) > 0 {
		k.work(due)
	}
	if len(due) > 0 || k.stale {
		k.groups = make([]Status, 0, len(k.order))
		for _, path := range k.order {
			k.groups = append(k.groups, k.members[path].status())
		}
	}
	k.restore()
	k.report.Groups = k.groups
	return k.report, k.next()
}

// next is how long nothing will be due.
func (k *Keeper) next() time.Duration {
	next := reassert
	for _, m := range k.members {
		next = min(next, max(m.due-k.now, 0))
	}
	if len(k.left) > 0 {
		next = min(next, max(k.leftAt-k.now, 0))
	}
	return next
}

// work looks at members and brings those that need it to their wish.
func (k *Keeper) work(due []*member) {
	var settings []plan.Setting
	observed := map[plan.Target]plan.Value{}
	var adopt []plan.Change
	for _, m := range due {
		l := k.look(m)
		settings = append(settings, l.settings...)
		adopt = append(adopt, l.adopt...)
		maps.Copy(observed, l.observed)
	}
	if len(adopt) > 0 {
		if _, err := k.opts.Applier.Adopt(adopt); err != nil {
			k.fail(err)
		}
	}
	if err := plan.OneOwner(settings); err != nil {
		k.fail(err)
	}
	changes := plan.Order(k.kinds(), k.unoccupied(plan.Diff(k.kinds(), settings, observed)))
	begun := k.begin(changes)
	for _, r := range k.opts.Applier.Apply(changes) {
		k.applied(r)
		switch {
		case r.Wrote, deferred(r.Err): // a list that moves has a second change
			delete(begun, r.Change.Target)
		case !begun[r.Change.Target]:
		case errors.Is(r.Err, apply.ErrChanged), errors.Is(r.Err, apply.ErrSkipped):
			_ = k.opts.Journal.Forget(r.Change.Target) // best effort: Berth wrote nothing
		}
	}
	for _, m := range due {
		k.conclude(m)
	}
}

// kinds is what the kinds of target say of their values.
func (k *Keeper) kinds() plan.Kinds { return k.opts.Applier.Kinds() }

// deferred says that systemd is about to write a change, and not that it waits for one
// of those.
func deferred(err error) bool {
	return errors.Is(err, apply.ErrDeferred) && !errors.Is(err, apply.ErrSkipped)
}

// begin journals the originals of all changes at once, which waits for the disk once
// and not for each, and says of which. What cannot be journaled is not written: the
// Applier tries each one again, and tells.
func (k *Keeper) begin(changes []plan.Change) map[plan.Target]bool {
	begun := map[plan.Target]bool{}
	var first []plan.Change
	for _, c := range changes {
		e, known := k.opts.Journal.Entry(c.Target)
		if (!known || e.ID != c.ID) && !begun[c.Target] {
			begun[c.Target] = true
			first = append(first, c)
		}
	}
	if len(first) < 2 || k.opts.Applier.Record(first) != nil {
		return nil
	}
	return begun
}

// Record journals what the container runtime is about to write because of an answer
// that asks for these wishes, which count from now on. Groups that do not exist yet,
// and values that stand, are left out. With an error the answer must not be given: the
// originals are not on disk.
func (k *Keeper) Record(wishes []Wish) error {
	var changes []plan.Change
	for _, w := range wishes {
		changes = append(changes, k.foretell(k.add(w))...)
	}
	if err := k.opts.Applier.Record(changes); err != nil {
		return err
	}
	return k.opts.Applier.Note(changes)
}

// Hurry brings one group to a wish at once, which counts from now on, without waiting for
// the next Pass. That one reports what came of it, and looks again where it did not go
// well: others may be in the way that are to leave in that very pass. It says whether
// systemd is to be asked for it.
func (k *Keeper) Hurry(w Wish) bool {
	k.report = k.between
	m := k.add(w)
	k.work([]*member{m})
	k.between = k.report
	k.stale = true // the groups of the next report are others
	if m.state != Applied && !m.deferred {
		m.due, m.wait = k.now, 0
	}
	return m.deferred
}

// add has one more wish count.
func (k *Keeper) add(w Wish) *member {
	known := len(k.members)
	k.wishes[w.Group] = w
	m := k.member(w)
	if len(k.members) > known {
		k.order = slices.Sorted(maps.Keys(k.members))
	}
	return m
}

// Close releases all groups. Nothing is put back: whoever wants that wishes for
// nothing and makes a Pass before.
func (k *Keeper) Close() error {
	var errs []error
	for path, m := range k.members {
		errs = append(errs, m.close())
		delete(k.members, path)
	}
	return errors.Join(errs...)
}

func (k *Keeper) fail(err error) { k.report.Errors = append(k.report.Errors, err) }

func (k *Keeper) tell(m *member, reason, text string) {
	k.report.News = append(k.report.News, News{Group: m.wish.Group, Workload: m.wish.Workload, Reason: reason, Text: text})
}
