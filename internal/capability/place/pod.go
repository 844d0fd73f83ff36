package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/lending"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// pod is one pod: what it is, what it asks for, what was decided, and what was published.
type pod struct {
	uid  string
	spec workload.Pod
	name string
	// known says that the pod was put; gone that it was dropped since then.
	known, gone bool
	// containers are sorted by name, then ID.
	containers []*container
	// pending says that something changed, so the pod should be decided again.
	pending bool
	asked   asked
	has     decided
	told    published
}

// asked is what a pod asks for.
type asked struct {
	// keys are the first values of the keys that ask for CPUs.
	keys workload.AskingKeys
	// late names the keys that changed since then.
	late string
	// pin is what the pod asks for, with the CPU limits in effect and the last memory; next has the limits of the last Put.
	pin, next workload.Pinning
	problems  v1alpha1.FieldErrors
	// ask is made from pin on first use.
	ask *placement.Ask
	// counted is the value of next when it became pin.
	counted workload.Pinning
	// halfway says that the pod was first put during a resize, or with one that the kubelet put off: the pod keeps its
	// CPUs until the outcome is known.
	halfway bool
	// resized says that a resize is being decided; putOff is a resize that the node could not follow, or nil.
	resized bool
	putOff  *putOff
}

// decided is what a pod has, or why it has nothing.
type decided struct {
	grant *grant.Grant
	// before is the grant from before the current move, or nil if no move is under way.
	before *grant.Grant
	// guess is the grant from when the pod was provisional; containers that run on CPUs of it claim them again.
	guess *grant.Grant
	// denied is why the pod has no exclusive CPUs although it asks; wait says that its containers must not start then.
	denied string
	wait   bool
	// word is denied in one word, for machines.
	word string
	// behind says that the pod would have room once leaving pods are gone. until is when it stops keeping its
	// containers from being created; 0 if it has not yet kept any.
	behind bool
	until  time.Duration
	// overbound are the memory nodes of the grant that have less memory than is bound to them.
	overbound cpuset.Set
	// loans are the borrowed CPUs by container name; the loan of a pod as a whole has no name.
	loans map[string]lending.Lent
}

// published is what events and annotations said about a pod.
type published struct {
	// confirmed is the grant that the pod was seen to have.
	confirmed *grant.Grant
	// reported has the last text for each reason, and under "" the last annotation.
	reported map[string]string
	// written is the annotation that was last read since the Node knows the pod's CPUs; foreign is the last annotation
	// that another writer set since then.
	looked           bool
	written, foreign string
	// answered is the last move that was answered.
	answered string
}

// container is one container of a pod.
type container struct {
	observed.Container
	// own says that the container was first seen with exclusive CPUs, and has lost them to no other pod since.
	own bool
	// pooled says that the container's CPUs are not its own: its pod was last refused, or its CPUs were seen while the
	// journal had it in the shared pool or with offline work. Nothing was granted since.
	pooled bool
	// seen says that Observe reported the container, missed that one list lacked it.
	seen, missed bool
	// verified says that CPUs were seen, not only answered.
	verified bool
	// settled says that the container was once seen on the CPUs of its part.
	settled bool
}

func setPooled(p *pod, in bool) {
	for _, c := range p.containers {
		c.pooled = in
	}
}

// live reports whether the container has, or is about to have, processes.
func (c *container) live() bool { return c.Phase != observed.Stopped }

func (p *pod) put(spec workload.Pod) {
	if spec.Provisional && p.known && !p.spec.Provisional {
		p.gone = false // the runtime knows less of it than the Node does
		return
	}
	if p.known && p.spec.Provisional {
		p.reread(spec)
	}
	first, was := !p.known, p.spec
	p.spec, p.name, p.known, p.gone = spec, nameOf(&spec), true, false
	if first {
		p.asked.keys = workload.AskingKeysOf(&spec)
	}
	p.asked.read(spec)
	if p.has.grant == nil || first {
		p.asked.count(p.asked.next)
		p.asked.counted, p.asked.putOff = p.asked.next, nil
		if p.asked.halfway = spec.Resizing || spec.Held(); p.asked.halfway {
			p.asked.counted = workload.Pinning{}
		}
	} else if pin, differs := p.asked.pin.WithMemoryOf(&p.asked.next); differs {
		p.asked.count(pin)
		p.has.grant = p.has.grant.On(p.has.grant.Machine, pin)
	}
	if first || was.Ended != spec.Ended || was.Excluded != spec.Excluded {
		p.pending = true
	}
}

// reread makes put read the pod as if for the first time. While the pod stays provisional its grant remains; no event
// and no annotation mentioned it.
func (p *pod) reread(spec workload.Pod) {
	p.known = false
	if spec.Provisional {
		return
	}
	if p.has.grant != nil {
		p.has.guess = p.has.grant
	}
	p.release()
	p.has.denied, p.has.word, p.has.wait, p.has.behind = "", "", false, false
}

// asks reports whether the pod gets exclusive CPUs if there is room.
func (p *pod) asks() bool {
	return p.known && p.asked.pin.Wanted && p.spec.Excluded.Why == "" && !p.spec.Ended
}

// read computes what the pod asks for next, from the first values of the keys and the present values of all other
// fields, and notes which keys changed.
func (a *asked) read(now workload.Pod) {
	if a.late = a.keys.Changed(&now); a.late != "" {
		now = a.keys.Of(now)
	}
	a.next, a.problems = workload.PinningOf(now)
}

// count makes pin what the pod asks for.
func (a *asked) count(pin workload.Pinning) { a.pin, a.ask = pin, nil }

func (a *asked) request() *placement.Ask {
	if a.ask == nil {
		ask := placement.AskOf(a.pin)
		a.ask = &ask
	}
	return a.ask
}

func (p *pod) observe(c observed.Container) {
	old, looked := p.container(c.ID), !c.CPUs.IsEmpty()
	if old == nil {
		old = &container{own: c.Pinned}
		p.containers = append(p.containers, old)
		p.pending = p.pending || p.lacks()
	} else if !looked {
		c.CPUs = old.CPUs
	}
	if c.CPUs != old.CPUs {
		old.pooled = c.Sharing()
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

// lacks reports whether a container that should have CPUs has none.
func (p *pod) lacks() bool {
	return p.has.grant == nil || slices.ContainsFunc(p.asked.pin.Pinned, func(c workload.PinnedContainer) bool {
		return p.has.grant.Parts[c.Name].CPUs.IsEmpty()
	})
}

// alive reports whether a container of the pod is live, except its sandbox. A sandbox has none of the pod's CPUs, and a
// restarted runtime does not report the end of an older sandbox.
func (p *pod) alive() bool {
	return slices.ContainsFunc(p.containers, func(c *container) bool { return c.live() && !c.Sandbox })
}

// over reports whether the pod holds nothing any more: it is complete or gone, and none of its containers runs.
func (p *pod) over() bool { return (p.gone || !p.known || p.spec.Ended) && !p.alive() }

// leaves reports whether the pod is complete or gone while a container still runs: its CPUs are free as soon as the
// runtime has stopped it.
func (p *pod) leaves() bool { return (p.gone || !p.known || p.spec.Ended) && p.alive() }

// began reports whether a container of the pod was created, other than the sandbox.
func (p *pod) began() bool {
	return slices.ContainsFunc(p.containers, func(c *container) bool { return c.live() && c.seen && !c.Sandbox })
}

// nameOf returns namespace/name, or only the name for a workload of a host without Kubernetes.
func nameOf(p *workload.Pod) string {
	if p.Namespace == "" {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

// key returns the name of the pod for messages.
func (p *pod) key() string {
	if p.known {
		return p.name
	}
	return "pod " + p.uid
}

func (p *pod) release() {
	p.has.grant, p.has.before, p.asked.putOff = nil, nil, nil
	delete(p.told.reported, v1alpha1.EventCPUPinned)
	for _, c := range p.containers {
		c.settled = false
	}
}

// unsettle forgets that containers with this name ever had exclusive CPUs.
func (p *pod) unsettle(name string) {
	for _, c := range p.containers {
		c.settled, c.own = c.settled && c.Name != name, c.own && c.Name != name
	}
}
