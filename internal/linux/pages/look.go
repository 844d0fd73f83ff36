package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// Size is the size of a base page, in bytes. Berth is built for machines where it is 4 KiB.
	Size = 4 << 10
	// HugeSize is the size of a transparent huge page, and of a page of a pool unless its mapping states another size.
	HugeSize = 2 << 20
	// Stretch is the part of a mapping that one Look reads: 8,192 pages.
	Stretch = 32 << 20
)

// The bits of an entry of pagemap, from fs/proc/task_mmu.c.
const (
	entrySize = 8
	exclusive = 1 << 56 // no other process has the page mapped
	guard     = 1 << 58 // no page, although it looks as if in swap
	file      = 1 << 61 // page cache or shared memory
	swapped   = 1 << 62
	present   = 1 << 63
)

// Seen is the result of Look, or of Pages and Locate. The slices have one element for each page that is present, in the
// order of addresses. They reuse the slices.
type Seen struct {
	Addresses []uint64
	// Nodes are the nodes of the pages. A negative number is not a page of the process: the page was freed in the
	// meantime, or is the zero page.
	Nodes []int32
	// Others says whether another process also has the page mapped.
	Others []bool
	// Swapped counts base pages in swap.
	Swapped int64

	asked   []uint64
	answers []int32
}

const (
	// Unknown is no node: Locate asks for the node of each page.
	Unknown int32 = -1
	// sampled is about how many pages a sample has.
	sampled = 64
)

// stretch returns where the stretch of a mapping ends that begins at an address. It never ends within a huge page.
func (m *Mapping) stretch(from uint64) uint64 { return min(m.End, (from+Stretch)/HugeSize*HugeSize) }

// Look reads the state of a mapping's pages from an address on, at each address where a page of the given size begins.
// It returns the address where it stopped. It skips mappings without movable pages.
func (p *Process) Look(m Mapping, from uint64, size int64, s *Seen) (next uint64, err error) {
	if next, err = p.Pages(m, from, size, s); err == nil {
		err = p.Locate(Unknown, s)
	}
	return next, err
}

// Pages is Look without the nodes.
func (p *Process) Pages(m Mapping, from uint64, size int64, s *Seen) (next uint64, err error) {
	s.Addresses, s.Nodes, s.Others, s.Swapped = s.Addresses[:0], s.Nodes[:0], s.Others[:0], 0
	next = m.stretch(from)
	if m.Kind == File || m.Kind == Device || m.Kind == Reserved {
		return m.End, nil
	}
	entries, err := p.pagemap(from, next)
	if err != nil {
		return next, fmt.Errorf("pages of process %d at %x: %w", p.PID, from, p.classified(err))
	}
	each := uint64(size / Size)
	for i := (each - from/Size%each) % each; i*entrySize < uint64(len(entries)); i += each {
		e := binary.NativeEndian.Uint64(entries[i*entrySize:])
		switch {
		case e&guard != 0 && e&present == 0:
		case e&swapped != 0:
			s.Swapped += int64(each)
		case e&present == 0 || m.Kind == Private && e&file != 0:
		default:
			s.Addresses = append(s.Addresses, from+i*Size)
			s.Others = append(s.Others, e&exclusive == 0 || m.sharesTables(from+i*Size, size))
		}
	}
	return next, nil
}

// Assume is Pages for a mapping of which every base page is present and no other process has any mapped, and for about
// as many pages as most, but not for less than a stretch. It asks nobody: Locate shows at each page that it asks for
// whether it is still there.
func (s *Seen) Assume(m *Mapping, from uint64, most int) (next uint64) {
	next = max(m.stretch(from), min(m.End, (from+uint64(most)*Size)/HugeSize*HugeSize))
	n := int((next - from) / Size)
	s.Addresses, s.Nodes, s.Swapped = slices.Grow(s.Addresses[:0], n)[:n], s.Nodes[:0], 0
	s.Others = slices.Grow(s.Others[:0], n)[:n]
	clear(s.Others)
	for i := range s.Addresses {
		s.Addresses[i] = from + uint64(i)*Size
	}
	return next
}

// Run returns where the pages end that begin with page i, are on one node, and are all or none mapped by others.
func (s *Seen) Run(i int) (end int) {
	node, others := s.Nodes[i], s.Others[i]
	end = i + 1
	for end < len(s.Nodes) && s.Nodes[end] == node && s.Others[end] == others {
		end++
	}
	return end
}

// Locate finds the nodes of the pages that Pages found. If the caller knows that the pages which only this process has
// mapped are on one node, Locate asks for a sample of them instead of all. It asks for all if a page of the sample is
// on another node.
func (p *Process) Locate(on int32, s *Seen) error {
	if on != Unknown {
		if known, err := p.confirm(on, s); known || err != nil {
			return err
		}
	}
	var err error
	s.Nodes, err = p.Where(s.Addresses, s.Nodes)
	return err
}

// Sample returns the nodes of a sample of the pages that Pages found. The next call of the process reuses it.
func (p *Process) Sample(s *Seen) ([]int32, error) {
	s.asked = s.asked[:0]
	for i := 0; i < len(s.Addresses); i += s.every() {
		s.asked = append(s.asked, s.Addresses[i])
	}
	var err error
	s.answers, err = p.Where(s.asked, s.answers)
	return s.answers, err
}

// Glance returns the nodes of some addresses of a mapping's stretch from an address on, and a negative number where no
// page is present. The next call of the process reuses it.
func (p *Process) Glance(m *Mapping, from uint64, s *Seen) ([]int32, error) {
	next := m.stretch(from)
	s.asked = s.asked[:0]
	for a := from; a < next; a += max(Size, (next-from)/sampled/Size*Size) {
		s.asked = append(s.asked, a)
	}
	var err error
	s.answers, err = p.Where(s.asked, s.answers)
	return s.answers, err
}

// every returns how many pages there are for one in a sample: in more than a stretch as many as in a stretch.
func (s *Seen) every() int { return min(max(1, len(s.Addresses)/sampled), Stretch/Size/sampled) }

// confirm sets the nodes of pages that are on a node, and reports whether a sample of them is. It asks for each page
// that others have mapped: the zero page is such a page.
func (p *Process) confirm(on int32, s *Seen) (known bool, err error) {
	s.asked, s.Nodes = s.asked[:0], s.Nodes[:0]
	every := s.every()
	for i, a := range s.Addresses {
		if s.Others[i] || i%every == 0 {
			s.asked = append(s.asked, a)
		}
	}
	if s.answers, err = p.Where(s.asked, s.answers); err != nil {
		return false, err
	}
	s.Nodes = slices.Grow(s.Nodes, len(s.Addresses))[:len(s.Addresses)]
	for i := range s.Nodes {
		s.Nodes[i] = on
	}
	for i, left := 0, s.answers; len(left) > 0; i++ {
		if !s.Others[i] && i%every != 0 {
			continue
		}
		if left[0] != on && !s.Others[i] {
			return false, nil
		}
		s.Nodes[i], left = left[0], left[1:]
	}
	return true, nil
}

// pagemap reads the pagemap entries of a range of addresses.
func (p *Process) pagemap(from, to uint64) ([]byte, error) {
	f, err := p.kernel.Open(p.file("pagemap"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at, ok := f.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("read at an offset: %w", errors.ErrUnsupported)
	}
	size := int(to-from) / Size * entrySize
	if cap(p.raw) < size {
		p.raw = make([]byte, Stretch/Size*entrySize)
	}
	n, err := at.ReadAt(p.raw[:size], int64(from/Size*entrySize))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read: %w", err)
	}
	if n < size { // The file is empty when the process ended.
		if err := p.Alive(); err != nil {
			return nil, err
		}
	}
	return p.raw[:n/entrySize*entrySize], nil
}

// Where returns the node of each page, or a negative number for an address without a page. It reuses the memory of
// nodes.
func (p *Process) Where(addresses []uint64, nodes []int32) ([]int32, error) {
	if cap(nodes) < len(addresses) {
		nodes = make([]int32, len(addresses), max(len(addresses), Stretch/Size))
	}
	nodes = nodes[:len(addresses)]
	if _, err := p.kernel.MovePages(p.tid, addresses, nil, nodes, moveOwn); err != nil {
		return nodes[:0], fmt.Errorf("nodes of the pages of process %d: %w", p.PID, called(err))
	}
	return nodes, nil
}
