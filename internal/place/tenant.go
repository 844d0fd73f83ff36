package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

// tenant is one pod: what it is, what it asks for, and what was decided.
type tenant struct {
	uid  string
	pod  Pod
	name string
	// known says that the pod was put; gone that it was dropped since.
	known, gone bool
	// keys are those that ask for CPUs, as they were first.
	keys map[string]string
	// late names those that changed since.
	late string
	// pin is what the pod asks for, with the limits that count; next is the same
	// with the limits it was last put with.
	pin, next workload.Pinning
	problems  v1alpha1.FieldErrors
	// ask is made from pin when it is first needed.
	ask *placement.Ask
	// containers are by name, then id.
	containers []*member
	// pending says that something happened which makes it worth deciding again.
	pending bool
	// resized is what pin was before a resize that is being decided.
	resized *workload.Pinning
	grant   *grant
	// guess is what the pod was granted while it was provisional; what its
	// containers run on of that is claimed once more.
	guess *grant
	// denied is why the pod has no CPUs of its own although it asks; wait says
	// that its containers must not start then.
	denied string
	wait   bool
	// behind says that only what leaves is in its way; since is when that first kept
	// one of its containers from being created, while the pod has nothing.
	behind bool
	since  time.Time
	// confirmed is the grant that the pod was seen to have.
	confirmed *grant
	// told is the last text of each reason, and of the annotation without one.
	told map[string]string
	// written is the annotation that was last looked at, since it is known what the
	// pod has; foreign the last one that somebody else wrote meanwhile.
	looked           bool
	written, foreign string
}

// member is one container of a tenant.
type member struct {
	Container
	// own says that it was first seen with CPUs of its own.
	own bool
	// seen says that somebody saw it, missed that one list lacked it.
	seen, missed bool
	// verified says that CPUs are what was seen, not what was answered.
	verified bool
	// settled says that it was seen on the CPUs of its part once.
	settled bool
}

// live says whether the container has, or is about to have, processes.
func (c *member) live() bool { return c.Phase != Stopped }

// put takes a pod as it is now.
func (t *tenant) put(p Pod) {
	if p.Provisional && t.known && !t.pod.Provisional {
		t.gone = false // the runtime knows no more than was known
		return
	}
	if t.known && t.pod.Provisional {
		t.reread(p)
	}
	first := !t.known
	was := t.pod
	t.pod, t.name, t.known, t.gone = p, p.Key(), true, false
	if first {
		t.keys = keysOf(&p)
	}
	t.late = t.changed()
	t.next, t.problems = t.read()
	if t.grant == nil || first {
		t.pin, t.ask = t.next, nil
	}
	if first || was.Ended != p.Ended || was.Excluded != p.Excluded {
		t.pending = true
	}
}

// reread makes put read the pod as if it were the first time. While it stays
// provisional, what was granted stands; nothing of that was told to anybody.
func (t *tenant) reread(p Pod) {
	t.known = false
	if p.Provisional {
		return
	}
	if t.grant != nil {
		t.guess = t.grant
	}
	t.release()
	t.denied, t.wait, t.behind = "", false, false
}

// asks says whether the pod is to get CPUs of its own if there is room.
func (t *tenant) asks() bool {
	return t.known && t.pin.Wanted && t.pod.Excluded == "" && !t.pin.StaticBurst && !t.pod.Ended
}

// request returns the Ask of the pod.
func (t *tenant) request() *placement.Ask {
	if t.ask == nil {
		ask := placement.AskOf(t.pin)
		t.ask = &ask
	}
	return t.ask
}

// observe takes a container as it is now.
func (t *tenant) observe(c Container) {
	old, looked := t.container(c.ID), !c.CPUs.IsEmpty()
	if old == nil {
		old = &member{own: c.Pinned}
		t.containers = append(t.containers, old)
		t.pending = t.pending || t.lacks()
	} else if !looked {
		c.CPUs = old.CPUs
	}
	old.verified = old.verified || looked
	old.Container, old.seen, old.missed = c, true, false
	slices.SortFunc(t.containers, func(a, b *member) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
}

func (t *tenant) container(id string) *member {
	for _, c := range t.containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// lacks says whether a container that is to have CPUs has none.
func (t *tenant) lacks() bool {
	return t.grant == nil || slices.ContainsFunc(t.pin.Pinned, func(c workload.PinnedContainer) bool {
		return t.grant.parts[c.Name].cpus.IsEmpty()
	})
}

// alive says whether any container of the pod is. Its sandbox has none of the pod's
// CPUs, and of one that ends after the runtime was started anew nobody is told.
func (t *tenant) alive() bool {
	return slices.ContainsFunc(t.containers, func(c *member) bool { return c.live() && !c.Sandbox })
}

// over says that the pod holds nothing any more: it is complete or gone, and
// nothing of it runs.
func (t *tenant) over() bool { return (t.gone || !t.known || t.pod.Ended) && !t.alive() }

// leaves says that the pod is complete or gone while something of it still runs: what
// it has is free as soon as the runtime is through with it.
func (t *tenant) leaves() bool { return (t.gone || !t.known || t.pod.Ended) && t.alive() }

// began says whether a container of the pod was made, its sandbox apart.
func (t *tenant) began() bool {
	return slices.ContainsFunc(t.containers, func(c *member) bool { return c.live() && c.seen && !c.Sandbox })
}

// key is the name that people know the pod by.
func (t *tenant) key() string {
	if t.known {
		return t.name
	}
	return "pod " + t.uid
}

// release takes away what the pod has.
func (t *tenant) release() {
	t.grant = nil
	delete(t.told, v1alpha1.EventCPUPinned)
	for _, c := range t.containers {
		c.settled = false
	}
}

// unsettle forgets that containers of this name ever had CPUs of their own.
func (t *tenant) unsettle(name string) {
	for _, c := range t.containers {
		c.settled = c.settled && c.Name != name
	}
}
