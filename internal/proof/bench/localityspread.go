package bench

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/pages"
)

// Spread places the pages of a process on two NUMA nodes. It is for one goroutine.
type Spread struct {
	process *pages.Process
	// unit is the size of the spread pages: base pages, or huge pages.
	unit uint64
	// near and far are the local and the remote node.
	near, far int
}

// OpenSpread opens a process of the kernel's machine, which may use the memory of both nodes.
func OpenSpread(k pages.Kernel, pid, local, remote int) (*Spread, error) {
	p, err := pages.Open(k, pid)
	if err != nil {
		return nil, fmt.Errorf("process to move: %w", err)
	}
	return &Spread{p, pages.Size, local, remote}, nil
}

// census returns the pages of the process that could move, and the node of each page.
func (s *Spread) census() (list []uint64, nodes []int32, err error) {
	mappings, err := s.process.Mappings()
	if err != nil {
		return nil, nil, fmt.Errorf("pages by node: %w", err)
	}
	var seen pages.Seen
	for _, m := range mappings {
		for from := m.Start; from < m.End && (m.Kind == pages.Private || m.Kind == pages.Shared); {
			if from, err = s.process.Look(m, from, pages.Size, &seen); err != nil {
				return nil, nil, fmt.Errorf("pages by node: %w", err)
			}
			list, nodes = append(list, seen.Addresses...), append(nodes, seen.Nodes...)
		}
	}
	return list, nodes, nil
}

// here counts the pages on the local node, and all pages.
func (s *Spread) here() (here, all int, err error) {
	_, nodes, err := s.census()
	for _, n := range nodes {
		if n >= 0 {
			all++
		}
		if int(n) == s.near {
			here++
		}
	}
	return here, all, err
}

// Percent returns the percentage of the process's pages on the local node.
func (s *Spread) Percent() (float64, error) {
	here, all, err := s.here()
	return 100 * float64(here) / float64(max(1, all)), err
}

// Place moves percent of a hundred units to the local node and the other units to the remote node, by their addresses.
func (s *Spread) Place(percent int) error {
	for _, heads := range []bool{true, false} { // A huge page moves by its first address.
		for _, node := range []int{s.near, s.far} {
			list, err := s.astray(node, percent, heads)
			if err == nil {
				err = s.send(list, node)
			}
			if err != nil {
				return fmt.Errorf("spread the pages: %w", err)
			}
		}
	}
	return nil
}

// astray returns the pages that belong on node and are elsewhere: all pages, or the first page of each unit.
func (s *Spread) astray(node, percent int, heads bool) (list []uint64, err error) {
	all, nodes, err := s.census()
	for i, a := range all {
		local := int(a/s.unit*37%100) < percent
		if nodes[i] >= 0 && int(nodes[i]) != node && local == (node == s.near) && (!heads || a%s.unit == 0) {
			list = append(list, a)
		}
	}
	return list, err
}

func (s *Spread) send(list []uint64, node int) error {
	var by pages.Mover
	for part := range slices.Chunk(list, locality.MostPages) {
		if err := by.Move(s.process, part, node, false, make([]pages.Fate, len(part))); err != nil {
			return fmt.Errorf("to node %d: %w", node, err)
		}
	}
	return nil
}
