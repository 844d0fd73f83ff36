package place

import "github.com/berth-project/berth/internal/cpuset"

// Wishes returns what every container that is not stopped should have, in the
// order of pods (scheduled earlier, then lower UID), names and ids. It is empty where nothing is pinned, and where Facts.Pinnable
// is false.
func (n *Node) Wishes() []Wish {
	n.settle()
	if !n.open || n.first == nil {
		return nil
	}
	wishes := make([]Wish, 0, len(n.where))
	n.each(func(t *tenant, c *member) {
		if w, found := n.wish(t, c); found {
			wishes = append(wishes, w)
		}
	})
	return wishes
}

// PodWishes returns what the groups of pods should have, in the same order.
func (n *Node) PodWishes() []PodWish {
	n.settle()
	if !n.open {
		return nil
	}
	var wishes []PodWish
	for _, t := range n.sorted() {
		if t.grant != nil {
			wishes = append(wishes, PodWish{
				PodUID: t.uid, NoQuota: true, Serves: t.key(), Why: "its containers " + t.grant.list() + " have CPUs of their own",
			})
		}
	}
	return wishes
}

// Pool returns the CPUs of everybody who has none of his own.
func (n *Node) Pool() cpuset.Set {
	n.settle()
	return n.pool
}

// Exclusive returns the CPUs that nobody else may use: those that pods have for
// themselves, and siblings that stay empty.
func (n *Node) Exclusive() cpuset.Set {
	n.settle()
	return n.taken
}

// News returns what is to be told since it was last asked.
func (n *Node) News() []News {
	n.settle()
	news := n.news
	n.news = nil
	return news
}

// each visits all containers by the order of pods, then name and id.
func (n *Node) each(visit func(t *tenant, c *member)) {
	for _, t := range n.sorted() {
		for _, c := range t.containers {
			visit(t, c)
		}
	}
}

// wish returns what a container should have, if anything.
func (n *Node) wish(t *tenant, c *member) (Wish, bool) {
	w := Wish{ContainerID: c.ID, PodUID: t.uid, Container: c.Name}
	if !n.open || n.first == nil || !c.live() {
		return w, false
	}
	if t.grant != nil {
		if one, found := t.grant.parts[c.Name]; found && !c.Sandbox {
			w.CPUs, w.Mems, w.Pinned, w.NoQuota, w.Serves = one.cpus, n.memsOf(one), true, true, t.key()
			w.Why = "its own CPUs, " + t.grant.from.String()
			if n.facts.MemsOwner != "" {
				w.Why += "; " + n.facts.MemsOwner
			}
			return w, true
		}
		if one := t.apps(t.grant.parts); t.kind(c) == initial && !one.cpus.IsEmpty() {
			w.CPUs, w.Mems, w.Pinned, w.Serves = one.cpus, n.memsOf(one), true, t.key()
			w.Why = "it ends before the containers start whose CPUs it has"
			return w, true
		}
	}
	w.CPUs, w.Serves = n.poolFor(t, c), n.first.key()
	w.Why = n.why
	if why := t.refused(c); why != "" {
		w.Why += "; none of its own: " + why
	}
	return w, true
}

// memsOf returns the NUMA nodes that a container of this part is to have, none where they
// are not Berth's to set.
func (n *Node) memsOf(one part) cpuset.Set {
	if n.facts.MemsOwner != "" {
		return cpuset.Set{}
	}
	return one.mems
}

// refused says why a container has no CPUs of its own that were asked for.
func (t *tenant) refused(c *member) string {
	switch kind := t.kind(c); {
	case c.Sandbox || kind != app && kind != sidecar:
		return ""
	case t.denied == "" && t.grant == nil && len(t.problems) > 0:
		return lines(t.problems)
	}
	return t.denied
}

// sharedWhy says why a container has the CPUs of the shared pool.
func (n *Node) sharedWhy() string {
	if n.first == nil {
		return ""
	}
	why := "the shared pool, while " + n.first.key()
	if n.pinned == 1 {
		return why + " has CPUs of its own"
	}
	return why + " and " + plural(n.pinned-1, "other") + " have CPUs of their own"
}
