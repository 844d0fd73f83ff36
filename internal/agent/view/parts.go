package view

import (
	"bytes"
	"errors"
	"strings"

	"github.com/berth-project/berth/internal/value/patch"
)

// Parts is a View with the JSON of entries that changed. A stream makes each line from two of them, for all readers that
// take patches, and encodes a changed entry once: the next line compares with the same bytes. Parts are not safe for
// concurrent use.
type Parts struct {
	view                     *View
	cpus, workloads, changes [][]byte
}

// Parts returns a View without the JSON of any entry.
func (v *View) Parts() *Parts {
	return &Parts{view: v, cpus: make([][]byte, len(v.CPUs)), workloads: make([][]byte, len(v.Workloads)), changes: make([][]byte, len(v.Changes))}
}

// Since returns what changed since an earlier View of the same agent, as a line of a stream. New entries are whole. A
// changed entry is its name and a merge patch, among the patches. It is whole if it has no patch: if that would have to
// set null, or nest too deep.
func (p *Parts) Since(before *Parts) ([]byte, error) {
	d := p.view.head(before.view)
	var whole, patches line
	var gone Gone
	patches.begin()
	whole.begin()
	if sameCPUs(before.view.CPUs, p.view.CPUs) {
		c := comparison[CPU]{key: "cpus", name: (*line).idOf, encode: (*line).cpu, order: func(a, b *CPU) int { return a.ID - b.ID }, same: same[CPU]}
		c.between(before.view.CPUs, p.view.CPUs, before.cpus, p.cpus)
		c.into(&whole, &patches)
	} else {
		d.Set["cpus"] = p.view.CPUs
	}
	w := comparison[Workload]{
		key: "workloads", name: (*line).nameOf, encode: (*line).workload, same: sameWorkload,
		order: func(a, b *Workload) int { return strings.Compare(a.Name, b.Name) },
	}
	for _, old := range w.between(before.view.Workloads, p.view.Workloads, before.workloads, p.workloads) {
		gone.Workloads = append(gone.Workloads, old.Name)
	}
	w.into(&whole, &patches)
	c := comparison[Change]{
		key: "changes", name: (*line).placeOf, encode: (*line).change, same: same[Change],
		order: func(a, b *Change) int { return byPlace(*a, *b) },
	}
	for _, old := range c.between(before.view.Changes, p.view.Changes, before.changes, p.changes) {
		gone.Changes = append(gone.Changes, old.place())
	}
	c.into(&whole, &patches)
	if gone.Workloads != nil || gone.Changes != nil {
		d.Gone = &gone
	}
	l := line{text: make([]byte, 0, 1024+len(whole.text)+len(patches.text)), err: errors.Join(whole.err, patches.err)}
	l.begin()
	l.key("set")
	l.value(d.Set)
	if len(whole.text) > 1 {
		l.text = append(append(l.text, ','), whole.text[1:]...)
	}
	if len(patches.text) > 1 {
		l.key("patches")
		l.text = append(l.text, patches.text...)
		l.end()
	}
	return l.rest(&d)
}

// comparison is what differs between two lists with the same order.
type comparison[T any] struct {
	key string
	// name writes the members that identify an entry, encode writes all.
	name, encode func(*line, *T)
	order        func(a, b *T) int
	same         func(a, b *T) bool
	// text is one entry.
	whole, patches, text line
}

// between compares two lists, with the JSON of their entries, and returns the entries that are gone.
func (c *comparison[T]) between(before, now []T, was, is [][]byte) (gone []*T) {
	i := 0
	for j := range now {
		for ; i < len(before) && c.order(&before[i], &now[j]) < 0; i++ {
			gone = append(gone, &before[i])
		}
		switch {
		case i == len(before) || c.order(&before[i], &now[j]) > 0:
			is[j] = c.encoded(&now[j])
			c.add(is[j])
			continue
		case c.same(&before[i], &now[j]):
			is[j] = was[i]
		default:
			if is[j] = c.encoded(&now[j]); was[i] == nil {
				was[i] = c.encoded(&before[i])
			}
			c.changed(&now[j], was[i], is[j])
		}
		i++
	}
	for ; i < len(before); i++ {
		gone = append(gone, &before[i])
	}
	return gone
}

// encoded returns the JSON of an entry.
func (c *comparison[T]) encoded(one *T) []byte {
	c.text.text = c.text.text[:0]
	c.encode(&c.text, one)
	return bytes.Clone(c.text.text)
}

// add adds a whole entry.
func (c *comparison[T]) add(entry []byte) {
	c.whole.next()
	c.whole.text = append(c.whole.text, entry...)
}

// changed adds the patch of an entry, unless its JSON is the same. An entry without a patch is whole, so that it does not
// end the streams of all readers.
func (c *comparison[T]) changed(one *T, was, is []byte) {
	if bytes.Equal(was, is) {
		return
	}
	l := &c.patches
	begin := len(l.text)
	l.next()
	l.begin()
	c.name(l, one)
	end := len(l.text)
	text, err := patch.Diff(l.text, was, is)
	if err != nil {
		l.text = l.text[:begin]
		c.add(is)
		return
	}
	if l.text = text; len(text) > end {
		text[end] = ',' // the patch continues the object
	}
}

// into writes the lists as members of two objects.
func (c *comparison[T]) into(whole, patches *line) {
	whole.note(c.text.err)
	whole.list(c.key, &c.whole)
	patches.list(c.key, &c.patches)
}

// next begins the next entry of a list.
func (l *line) next() {
	if len(l.text) == 0 {
		l.text = append(l.text, '[')
	} else {
		l.text = append(l.text, ',')
	}
}

// list writes a list; it omits an empty list.
func (l *line) list(key string, entries *line) {
	l.note(entries.err)
	if len(entries.text) == 0 {
		return
	}
	l.key(key)
	l.text = append(append(l.text, entries.text...), ']')
}

func (l *line) idOf(c *CPU)        { l.whole("id", c.ID) }
func (l *line) nameOf(w *Workload) { word(l, "name", w.Name) }
func (l *line) placeOf(c *Change) {
	word(l, "object", c.Object)
	word(l, "knob", c.Knob)
}
