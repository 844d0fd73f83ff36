package mover

import (
	"math/bits"
	"slices"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/pages"
)

// stretch is the part of a mapping that a pass examines at once, from an address on. size is the size of its pages.
type stretch struct {
	pass    *pass
	mapping *pages.Mapping
	from    uint64
	size    int64
}

// find finds the pages of the stretch and their nodes, and returns where the stretch ends.
func (s stretch) find() (next uint64, err error) {
	p, w, m := s.pass, &s.pass.walk, s.mapping
	if err = s.glance(); err != nil {
		return s.from, err
	}
	if w.census.full {
		on, most := w.census.rest(), 0
		if on != pages.Unknown { // a few questions are enough for all that the next calls may have
			most = p.pace.Ahead() - len(p.batch)
		}
		next = w.seen.Assume(m, s.from, most)
		if err = w.process.Locate(on, &w.seen); err != nil || slices.Min(w.seen.Nodes) >= 0 {
			return next, err
		}
		w.census.change()
	}
	if next, err = w.process.Pages(*m, s.from, s.size, &w.seen); err == nil {
		err = s.locate()
	}
	return next, err
}

// glance asks for the nodes of a few addresses of a mapping before its first stretch. If a page is remote, its policy
// is needed anyway, and the census may show that pagemap is not.
func (s stretch) glance() error {
	w, m := &s.pass.walk, s.mapping
	if w.census.sampled || m.Kind != pages.Private || s.from != m.Start || m.End-m.Start < fewest*pages.Size {
		return nil
	}
	return s.count(w.process.Glance(m, s.from, &w.seen))
}

// count reads the policy of the mapping, and the census with it, if one of the nodes of its pages is remote.
func (s stretch) count(nodes []int32, err error) error {
	if err != nil || !slices.ContainsFunc(nodes, s.pass.order.remote) {
		return err
	}
	policy, err := s.pass.policy(s.mapping.Start)
	if err == nil {
		s.pass.walk.census.sampled = true
		s.pass.walk.census.count(s.mapping, &policy)
	}
	return err
}

// locate finds the nodes of a stretch's pages. If a sample of the mapping's first stretch has a remote page, it reads
// the policy, and the census with it, at once: it is needed for that page anyway.
func (s stretch) locate() error {
	w := &s.pass.walk
	if !w.census.sampled && s.mapping.Kind == pages.Private && len(w.seen.Addresses) >= fewest {
		w.census.sampled = true
		if err := s.count(w.process.Sample(&w.seen)); err != nil {
			return err
		}
	}
	return w.process.Locate(w.census.rest(), &w.seen)
}

// take adds the pages that were seen on other nodes to the batch, or counts why they stay. It reports whether the
// stretch must be examined again, because the mapping is of a pool.
func (s stretch) take() (again bool, err error) {
	p, w, m := s.pass, &s.pass.walk, s.mapping
	each, order := s.size/pages.Size, uint8(bits.Len64(uint64(s.size/pages.Size))-1)
	var policy pages.Policy
	if slices.ContainsFunc(w.seen.Nodes, p.order.remote) {
		if policy, err = p.policy(m.Start); err != nil {
			return false, err
		}
		if policy.Huge && m.Kind != pages.Huge {
			m.Kind = pages.Huge
			return true, nil
		}
		w.census.count(m, &policy)
	}
	p.report.Found += w.seen.Swapped
	p.report.leave(locality.LeftSwapped, w.seen.Swapped)
	s.sort(page{order: order}, each, &policy)
	return false, nil
}

// sort adds the remote pages to the batch, or counts why they stay. Each page is like g, except for its address and
// node, and has so many base pages.
func (s stretch) sort(g page, each int64, policy *pages.Policy) {
	p, seen := s.pass, &s.pass.walk.seen
	var last page         // of the last run that was remote
	var why locality.Left // it stays
	known := false        // why is
	for i, end := 0, 0; i < len(seen.Nodes); i = end {
		end = seen.Run(i)
		g.node, g.shared = seen.Nodes[i], seen.Others[i]
		n := int64(end-i) * each
		p.walk.census.see(g.node, n)
		if !known || g != last {
			if !p.order.remote(g.node) {
				continue
			}
			last, why, known = g, s.stays(g, policy), true
		}
		if p.report.Found += n; why != "" {
			p.report.leave(why, n)
		} else {
			s.add(g, seen.Addresses[i:end])
		}
	}
}

// stays returns why a remote page stays, or nothing if it may move.
func (s stretch) stays(g page, policy *pages.Policy) locality.Left {
	p, m := s.pass, s.mapping
	switch {
	case policy.Own:
		return locality.LeftPolicy
	case len(p.targets[int(g.node)]) == 0:
		return locality.LeftTier
	case p.walk.held[m.Start]:
		return locality.LeftPinned
	case g.shared && (m.Memory == "" || m.Kind != pages.Shared):
		return locality.LeftShared
	}
	return ""
}

// add adds pages that are equal except for their addresses to the batch.
func (s stretch) add(first page, addresses []uint64) {
	p := s.pass
	have := len(p.batch)
	p.uniform = p.uniform && (have == 0 || p.batch[0].lot() == first.lot())
	p.batch = slices.Grow(p.batch, len(addresses))[:have+len(addresses)]
	for i, a := range addresses {
		first.address = a
		p.batch[have+i] = first
	}
}
