package mover_test

import (
	"maps"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/pages"
)

// stretch is the number of base pages that the mover examines at once.
const stretch = pages.Stretch / pages.Size

// part is a run of base pages, or of huge pages, in a mapping.
type part struct {
	n, node int
	huge    bool
	kind    string // what else is true of its pages
	every   int    // one in so many pages is on node 0
}

// fill puts the parts into a mapping one after the other. Huge pages begin at the next multiple of their size.
func fill(m *mapping, parts []part) {
	at := m.start
	for _, p := range parts {
		if p.huge {
			at = (at + pages.HugeSize - 1) / pages.HugeSize * pages.HugeSize
			for range p.n/512 + 1 {
				big := huge(at, 1, p.node, false)
				maps.Copy(m.folios, big.folios)
				at = big.end
			}
			continue
		}
		for i := range p.n {
			g := &folio{node: p.node, pages: 1}
			if p.every > 0 && i%p.every == 0 {
				g.node = 0
			}
			switch p.kind {
			case "shared":
				g.shared = true
			case "stuck":
				g.stuck = true
			case "held":
				g.held = true
			case "zero":
				g.zero, g.shared = true, true
			case "file":
				g.file = true
			case "swapped":
				m.swapped[at] = true
			}
			switch p.kind {
			case "absent":
			case "swapped":
			default:
				m.folios[at] = g
			}
			at += pages.Size
		}
	}
	m.end = max(m.end, at)
}

// anyPart draws a part of a mapping: many pages on the node home, or a few others.
func anyPart(t *rapid.T, nodes, home int) part {
	few := rapid.IntRange(1, 600)
	switch kind := rapid.SampledFrom([]string{
		"", "", "", "", "huge", "huge", "elsewhere", "mixed", "shared", "stuck", "held", "zero", "swapped", "absent", "file",
	}).Draw(t, "kind"); kind {
	case "":
		return part{n: rapid.SampledFrom([]int{1000, 4000, stretch, stretch + 1}).Draw(t, "pages"), node: home}
	case "huge":
		return part{n: few.Draw(t, "pages") * 10, node: home, huge: true}
	case "elsewhere":
		return part{n: few.Draw(t, "pages"), node: rapid.IntRange(0, nodes-1).Draw(t, "node")}
	case "mixed":
		return part{n: few.Draw(t, "pages"), node: home, every: rapid.IntRange(1, 50).Draw(t, "every")}
	default:
		return part{n: few.Draw(t, "pages"), node: home, kind: kind}
	}
}

// TestCensus compares passes over the same memory, with and without the counts of numa_maps. Every page must end on the
// same node, and the accounts must be equal, but the pass with counts asks for the node of no more pages.
func TestCensus(t *testing.T) {
	t.Parallel()
	saved := 0
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(2, 3).Draw(rt, "nodes")
		var mappings [][]part
		for range rapid.IntRange(1, 2).Draw(rt, "mappings") {
			var parts []part
			home := rapid.SampledFrom([]int{0, 1, 1, nodes - 1}).Draw(rt, "home")
			for range rapid.IntRange(2, 10).Draw(rt, "parts") {
				parts = append(parts, anyPart(rt, nodes, home))
			}
			mappings = append(mappings, parts)
		}
		policy := rapid.SampledFrom([]string{"default", "default", "default", "bind:1"}).Draw(rt, "policy")
		dry := rapid.IntRange(0, 5).Draw(rt, "dry") == 0
		pass := func(uncounted bool) (*fake, mover.Report) {
			f := newFake(nodes)
			f.uncounted = uncounted
			p := f.add(1, 0, 0)
			p.mappings = nil
			for i, parts := range mappings {
				m := anonymous(0x100000000000+uint64(i)<<32, 0, 0)
				fill(m, parts)
				p.mappings = append(p.mappings, m)
			}
			p.mappings[0].policy = policy
			o := order(rt, f)
			o.DryRun = dry
			var r mover.Report
			synctest.Test(t, func(t *testing.T) { r = run(t, f, o) })
			return f, r
		}
		with, r := pass(false)
		without, want := pass(true)
		if d := cmp.Diff(without.on(1), with.on(1)); d != "" {
			rt.Fatalf("pages by node (-all asked +by counts):\n%s", d)
		}
		if d := cmp.Diff(want, r, cmpopts.IgnoreFields(mover.Report{}, "Called", "Longest", "Looked", "Rate", "Started", "Ended")); d != "" {
			rt.Fatalf("reports (-all asked +by counts):\n%s", d)
		}
		if with.asked > without.asked { // a sample of a stretch costs both the same
			rt.Fatalf("asked for %d pages, without counts for %d", with.asked, without.asked)
		}
		saved += without.asked - with.asked
	})
	if saved == 0 {
		t.Error("no query was saved in any case")
	}
}

// TestFewAreAsked checks for how many pages the mover asks the kernel, beside the first sample of a mapping and the two
// pages of each block that moves.
func TestFewAreAsked(t *testing.T) {
	t.Parallel()
	const n = 6 * stretch
	for name, test := range map[string]struct {
		parts        []part
		all, sampled int  // stretches that are asked for as a whole, and by a sample
		pagemap      bool // pagemap is needed too
	}{
		"all of it is remote":        {[]part{{n: n, node: 1}}, 0, 6, false},
		"the beginning is local":     {[]part{{n: stretch / 2}, {n: n - stretch/2, node: 1}}, 1, 5, false},
		"the rest is local":          {[]part{{n: stretch / 2, node: 1}, {n: n - stretch/2}}, 1, 5, false},
		"one page at the end":        {[]part{{n: n - 1, node: 1}, {n: 1}}, 6, 0, false},
		"the other half all over it": {[]part{{n: n, node: 1, every: 2}}, 6, 0, false},
		"two remote nodes":           {[]part{{n: n / 2, node: 1}, {n: n / 2, node: 2}}, 3, 3, false},
		"a mapping before it":        {[]part{{n: n, node: 1}}, 0, 6, false},
		"of a file":                  {[]part{{n: 1, node: 1, kind: "file"}, {n: n - 1, node: 1}}, 6, 0, true},
		"a page is absent":           {[]part{{n: n - 2, node: 1}, {n: 1, kind: "absent"}, {n: 1, node: 1}}, 0, 6, true},
		"a page is in swap":          {[]part{{n: n - 2, node: 1}, {n: 1, kind: "swapped"}, {n: 1, node: 1}}, 0, 6, true},
		"a page is shared":           {[]part{{n: n - 2, node: 1}, {n: 1, node: 1, kind: "shared"}, {n: 1, node: 1}}, 0, 6, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(3)
				m := anonymous(0x100000000000, 0, 0)
				fill(m, test.parts)
				p, before := f.add(1, 0, 0), anonymous(m.start-pages.HugeSize, 0, 0)
				p.mappings = []*mapping{m}
				if name == "a mapping before it" {
					fill(before, []part{{n: 100, node: 1, every: 2}})
					p.mappings = []*mapping{before, m}
				}
				r := run(t, f, order(t, f))
				if f.splits > 0 || r.Outcome != locality.Completed || f.on(1)[0] < n-1 {
					t.Errorf("%+v, pages %v", r, f.on(1))
				}
				if (f.entries >= n) != test.pagemap {
					t.Errorf("read %d entries of pagemap for %d pages", f.entries, n)
				}
				for _, c := range f.calls {
					if c.stray+c.shared > 0 {
						t.Errorf("a call with pages that cannot move: %+v", c)
					}
				}
				least := len(before.folios) + 64 + test.all*stretch + test.sampled*64
				if most := least + 2*n/512; f.asked < least-1 || f.asked > most {
					t.Errorf("asked for %d pages, want %d to %d", f.asked, least, most)
				}
			})
		})
	}
}

// TestPagesChangeAfterTheCensus checks that pages which come to the local node after numa_maps was read, in place of
// others, do not count as moved. The sample of one stretch shows them, and then all later pages are asked for.
func TestPagesChangeAfterTheCensus(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, o mover.Order) {
		const n = 12 * stretch // of which the first call has the first eight
		p := f.add(1, n, 1)
		f.before = func(call int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if m := p.mappings[0]; call == 0 {
				for at := m.start + 10*pages.Stretch; at < m.end; at += 2 * pages.Size {
					if at == m.start+11*pages.Stretch {
						at += pages.Size // no page of its sample changes
					}
					m.folios[at] = &folio{pages: 1}
				}
			}
		}
		r := run(t, f, o)
		if want := int64(n - 2*stretch/2); r.Found != want || r.Bytes() != want*pages.Size {
			t.Errorf("found %d pages and moved %d, want %d", r.Found, r.Bytes()/pages.Size, want)
		}
	})
}

// TestFullMappingChanges checks what happens to a mapping that numa_maps showed full and unshared. While its first
// pages move, a fork or KSM shares later pages, or they leave. A shared page stays, no page counts as moved that did
// not move, and the pass reads pagemap after the first call with such pages.
func TestFullMappingChanges(t *testing.T) {
	t.Parallel()
	const n, kept = 30 * stretch, 12 * stretch // the first eight stretches are in the first call
	for name, test := range map[string]struct {
		change func(m *mapping, at uint64)
		left   locality.Left
	}{
		"shared": {func(m *mapping, at uint64) { m.folios[at].shared = true }, locality.LeftShared},
		"swapped": {func(m *mapping, at uint64) {
			m.swapped[at] = true
			delete(m.folios, at)
		}, locality.LeftSwapped},
		"absent": {func(m *mapping, at uint64) { delete(m.folios, at) }, ""},
	} {
		for every, name := range map[int]string{1: name, 7: name + " now and then"} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fake, o mover.Order) {
					p, changed := f.add(1, n, 1), map[uint64]*folio{}
					f.before = func(call int) {
						f.mu.Lock()
						defer f.mu.Unlock()
						m := p.mappings[0]
						for i := kept; call == 0 && i < n; i += every {
							at := m.start + uint64(i)*pages.Size
							changed[at] = m.folios[at]
							test.change(m, at)
						}
					}
					r := run(t, f, o)
					for at, g := range changed {
						if g.node != 1 {
							t.Fatalf("the page at %x moved", at)
						}
					}
					tried := int64(0) // not excluded before a call
					for _, c := range f.calls {
						tried += int64(c.stray + c.shared)
					}
					if moved := r.Bytes() / pages.Size; moved != int64(n-len(changed)) || r.Outcome != locality.Completed {
						t.Errorf("moved %d pages: %+v", moved, r)
					}
					if seen := r.Left[test.left] + r.Left[locality.LeftGone]; seen < int64(len(changed)) && test.left != "" {
						t.Errorf("%d pages have changed: %+v", len(changed), r)
					}
					if most := int64(9 * stretch); tried > most {
						t.Errorf("%d pages were tried in vain, of %d", tried, len(changed))
					}
				})
			})
		}
	}
}
