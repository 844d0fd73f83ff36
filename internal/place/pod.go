package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/grant"
	"github.com/berth-project/berth/internal/lending"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

// pod is one pod: what it is, what it asks for, what was decided, and what was published.
type pod struct {
	uid  string
	spec workload.Pod
	name string
	// known says that the pod was put; gone that it was dropped since.
	known, gone bool
	// containers are by name, then id.
	containers []*container
	// pending says that something happened which makes it worth deciding again.
	pending bool
	asked
	decided
	published
}

// asked is what a pod asks for.
type asked struct {
	// keys are those that ask for CPUs, as they were first.
	keys workload.AskingKeys
	// late names those that changed since.
	late string
	// pin is what the pod asks for, with the limits that count; next is the same
	// with the limits it was last put with.
	pin, next workload.Pinning
	problems  v1alpha1.FieldErrors
	// ask is made from pin when it is first needed.
	ask *placement.Ask
	// counted is next as it was when it became pin.
	counted workload.Pinning
	// halfway says that the pod was first put while it was resized, or that put off: what it
	// has stands until it is known how that ends.
	halfway bool
	// resized says that a resize is being decided; putOff is one that the node could not
	// follow, nil for none.
	resized bool
	putOff  *putOff
}

// decided is what a pod has, or why it has nothing.
type decided struct {
	grant *grant.Grant
	// before is what the pod had when its move began, nil where none is under way.
	before *grant.Grant
	// guess is what the pod was granted while it was provisional; what its
	// containers run on of that is claimed once more.
	guess *grant.Grant
	// denied is why the pod has no exclusive CPUs although it asks; wait says
	// that its containers must not start then.
	denied string
	wait   bool
	// word is the cause of denied in one word, for machines.
	word string
	// behind says that only what leaves is in its way; until is how long that may keep
	// its containers from being created, 0 where it has kept none yet.
	behind bool
	until  time.Duration
	// loans are what containers have besides their grant, by name; the one of the pod has no
	// name.
	loans map[string]lending.Lent
}

// published is what events and annotations said of a pod.
type published struct {
	// confirmed is the grant that the pod was seen to have.
	confirmed *grant.Grant
	// reported is the last text of each reason, and of the annotation without one.
	reported map[string]string
	// written is the annotation that was last read, since the Node knows what the pod
	// has; foreign the last one that another writer set meanwhile.
	looked           bool
	written, foreign string
	// answered is the move that was answered last.
	answered string
}

// container is one container of a pod.
type container struct {
	Container
	// own says that it was first seen with exclusive CPUs, and has lost them to nobody since.
	own bool
	// pooled says that what it runs on is not its own: its pod was refused last, or the journal had it
	// in the shared pool, or with offline work, when its CPUs were seen, and nothing was granted since.
	pooled bool
	// seen says that Observe reported it, missed that one list lacked it.
	seen, missed bool
	// verified says that CPUs are what was seen, not what was answered.
	verified bool
	// settled says that it was seen on the CPUs of its part once.
	settled bool
}

// sharing says whether the journal has the container in the shared pool, or with offline work.
func (c *Container) sharing() bool { return !c.Pinned && !c.Given.IsEmpty() }

// setPooled notes whether the containers of the pod are in the shared pool.
func setPooled(p *pod, in bool) {
	for _, c := range p.containers {
		c.pooled = in
	}
}

// live says whether the container has, or is about to have, processes.
func (c *container) live() bool { return c.Phase != Stopped }

// put takes a pod as it is now.
func (p *pod) put(spec workload.Pod) {
	if spec.Provisional && p.known && !p.spec.Provisional {
		p.gone = false // the runtime knows less of it than the Node does
		return
	}
	if p.known && p.spec.Provisional {
		p.reread(spec)
	}
	first := !p.known
	was := p.spec
	p.spec, p.name, p.known, p.gone = spec, nameOf(&spec), true, false
	if first {
		p.keys = workload.AskingKeysOf(&spec)
	}
	p.read(spec)
	if p.grant == nil || first {
		p.count(p.next)
		p.counted, p.putOff = p.next, nil
		if p.halfway = spec.Resizing || spec.Held(); p.halfway {
			p.counted = workload.Pinning{}
		}
	}
	if first || was.Ended != spec.Ended || was.Excluded != spec.Excluded {
		p.pending = true
	}
}

// reread makes put read the pod as if it were the first time. While it stays
// provisional, what was granted stands; no event and no annotation said so.
func (p *pod) reread(spec workload.Pod) {
	p.known = false
	if spec.Provisional {
		return
	}
	if p.grant != nil {
		p.guess = p.grant
	}
	p.release()
	p.denied, p.word, p.wait, p.behind = "", "", false, false
}

// asks says whether the pod gets exclusive CPUs if there is room.
func (p *pod) asks() bool {
	return p.known && p.pin.Wanted && p.spec.Excluded.Why == "" && !p.spec.Ended
}

// read decides what the pod asks for next, by the keys as they were first and all other
// fields as they are now, and notes which keys changed since.
func (a *asked) read(now workload.Pod) {
	if a.late = a.keys.Changed(&now); a.late != "" {
		now = a.keys.Of(now)
	}
	a.next, a.problems = workload.PinningOf(now)
}

// count makes this what the pod asks for.
func (a *asked) count(pin workload.Pinning) { a.pin, a.ask = pin, nil }

// request returns the Ask of the pod.
func (a *asked) request() *placement.Ask {
	if a.ask == nil {
		ask := placement.AskOf(a.pin)
		a.ask = &ask
	}
	return a.ask
}

// observe takes a container as it is now.
func (p *pod) observe(c Container) {
	old, looked := p.container(c.ID), !c.CPUs.IsEmpty()
	if old == nil {
		old = &container{own: c.Pinned}
		p.containers = append(p.containers, old)
		p.pending = p.pending || p.lacks()
	} else if !looked {
		c.CPUs = old.CPUs
	}
	if c.CPUs != old.CPUs {
		old.pooled = c.sharing()
	}
	old.verified = old.verified || looked
	old.Container, old.seen, old.missed = c, true, false
	slices.SortFunc(p.containers, func(a, b *container) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
}

func (p *pod) container(id string) *container {
	for _, c := range p.containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// lacks says whether a container that is to have CPUs has none.
func (p *pod) lacks() bool {
	return p.grant == nil || slices.ContainsFunc(p.pin.Pinned, func(c workload.PinnedContainer) bool {
		return p.grant.Parts[c.Name].CPUs.IsEmpty()
	})
}

// alive says whether any container of the pod is. Its sandbox has none of the pod's
// CPUs, and the runtime reports no end of a sandbox that is older than itself.
func (p *pod) alive() bool {
	return slices.ContainsFunc(p.containers, func(c *container) bool { return c.live() && !c.Sandbox })
}

// over says that the pod holds nothing any more: it is complete or gone, and
// nothing of it runs.
func (p *pod) over() bool { return (p.gone || !p.known || p.spec.Ended) && !p.alive() }

// leaves says that the pod is complete or gone while something of it still runs: its
// CPUs are free as soon as the runtime has stopped it.
func (p *pod) leaves() bool { return (p.gone || !p.known || p.spec.Ended) && p.alive() }

// began says whether a container of the pod was made, its sandbox apart.
func (p *pod) began() bool {
	return slices.ContainsFunc(p.containers, func(c *container) bool { return c.live() && c.seen && !c.Sandbox })
}

// nameOf returns namespace/name, or the name alone for a workload of a host without
// Kubernetes.
func nameOf(p *workload.Pod) string {
	if p.Namespace == "" {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

// key is the name of the pod in messages.
func (p *pod) key() string {
	if p.known {
		return p.name
	}
	return "pod " + p.uid
}

// release takes away what the pod has.
func (p *pod) release() {
	p.grant, p.before, p.putOff = nil, nil, nil
	delete(p.reported, v1alpha1.EventCPUPinned)
	for _, c := range p.containers {
		c.settled = false
	}
}

// unsettle forgets that containers of this name ever had exclusive CPUs.
func (p *pod) unsettle(name string) {
	for _, c := range p.containers {
		c.settled, c.own = c.settled && c.Name != name, c.own && c.Name != name
	}
}
