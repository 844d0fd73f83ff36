package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/table"
	"github.com/berth-project/berth/internal/value/unit"
)

// branch is one line of the tree with its subtree.
type branch struct {
	title    string
	detail   string
	cpus     cpuset.Set
	rank     int // orders branches with the same CPUs, outer before inner
	cores    []topology.Core
	branches []*branch
}

// printTree prints the machine with every CPU set below the smallest set that contains it. This also shows NUMA nodes
// that span sockets.
func printTree(w io.Writer, t *topology.Topology) error {
	paint := paintFor(w)
	root := &branch{cpus: t.Online}
	for _, b := range branches(t) {
		root.insert(b)
	}
	for _, core := range t.Cores {
		root.insertCore(core)
	}
	page := table.PageFor(w)
	page.WriteString(paint(bold, summary(t)) + "\n")
	root.print(page, "", paint)
	printRemarks(page, t, paint)
	return writeOutput(w, page.String())
}

// branches returns sockets, dies, nodes and L3 domains, outer branches first. It omits a die that is the whole socket.
func branches(t *topology.Topology) []*branch {
	var all []*branch
	for _, s := range t.Sockets {
		all = append(all, &branch{title: fmt.Sprintf("socket %d", s.ID), cpus: s.CPUs, rank: 0})
	}
	for _, n := range t.Nodes {
		all = append(all, &branch{title: fmt.Sprintf("NUMA node %d", n.ID), detail: nodeDetail(t, n), cpus: n.CPUs, rank: 1})
	}
	for _, d := range t.Dies {
		if !slices.ContainsFunc(t.Sockets, func(s topology.Socket) bool { return s.CPUs == d.CPUs }) {
			all = append(all, &branch{title: fmt.Sprintf("die %d", d.ID), cpus: d.CPUs, rank: 2})
		}
	}
	for _, l3 := range t.L3 {
		all = append(all, &branch{title: fmt.Sprintf("L3 %d", l3.ID), cpus: l3.CPUs, rank: 3})
	}
	slices.SortStableFunc(all, func(a, b *branch) int {
		return cmp.Or(cmp.Compare(b.cpus.Size(), a.cpus.Size()), cmp.Compare(a.rank, b.rank), a.cpus.Compare(b.cpus))
	})
	return all
}

// distancesShown bounds how many distances of a node are listed one by one.
const distancesShown = 8

// nodeDetail describes the memory of a node and its distances: one distance per node or, for many nodes, each distance
// with its nodes.
func nodeDetail(t *topology.Topology, n topology.Node) string {
	text := table.Bytes(n.MemoryBytes) + ", distances "
	if len(n.Distances) <= distancesShown {
		return text + strings.Trim(fmt.Sprint(n.Distances), "[]")
	}
	far := map[int][]int{}
	for i, distance := range n.Distances {
		far[distance] = append(far[distance], int(t.Nodes[i].ID))
	}
	var classes []string
	for _, distance := range slices.Sorted(maps.Keys(far)) {
		classes = append(classes, fmt.Sprintf("%d to %s", distance, idsText(far[distance])))
	}
	return text + strings.Join(classes, ", ")
}

// insert puts b below the deepest branch that contains all its CPUs.
func (r *branch) insert(b *branch) {
	for _, child := range r.branches {
		if !b.cpus.IsEmpty() && b.cpus.IsSubsetOf(child.cpus) {
			child.insert(b)
			return
		}
	}
	r.branches = append(r.branches, b)
}

func (r *branch) insertCore(core topology.Core) {
	for _, child := range r.branches {
		if core.CPUs.IsSubsetOf(child.cpus) {
			child.insertCore(core)
			return
		}
	}
	r.cores = append(r.cores, core)
}

// print writes everything below the branch.
func (r *branch) print(page *table.Page, indent string, paint painter) {
	groups := coreLines(r.cores, indent)
	for i, lines := range groups {
		sign, below := limbs(i+1 == len(groups) && len(r.branches) == 0)
		page.WriteString(indent + sign + strings.Join(lines, "\n"+indent+below) + "\n")
	}
	// The stable sort leaves branches without CPUs last and in the order of ids.
	slices.SortStableFunc(r.branches, func(a, b *branch) int { return a.cpus.Compare(b.cpus) })
	for i, b := range r.branches {
		sign, below := limbs(i+1 == len(r.branches))
		page.WriteString(indent + sign + paint(bold, b.title) + strings.Join(b.lines(indent+below, page.Columns()), "\n") + "\n")
		b.print(page, indent+below, paint)
	}
}

// lines returns the text after the title, in lines that fit the screen. The lines after the first begin with indent,
// and with the stem of the subtree.
func (r *branch) lines(indent string, width int) []string {
	text := "  " + cpusText(r.cpus)
	if r.detail != "" {
		text += "  " + r.detail
	}
	stem := indent + "│  "
	if len(r.branches) == 0 && len(r.cores) == 0 {
		stem = indent + "   "
	}
	lines := table.Wrap(text, width-utf8.RuneCountInString(indent+r.title))
	for i := range lines[1:] {
		lines[i+1] = stem + lines[i+1]
	}
	return lines
}

// limbs returns the prefix of a line and of the lines below it.
func limbs(last bool) (sign, below string) {
	if last {
		return "└─ ", "   "
	}
	return "├─ ", "│  "
}

// coreLines returns the cores of each kind, in lines of at most 96 columns.
func coreLines(cores []topology.Core, indent string) [][]string {
	const width = 96
	var groups [][]string
	for _, kind := range []topology.Kind{topology.KindSame, topology.KindPerformance, topology.KindEfficiency} {
		title := strings.TrimSpace(string(kind) + " cores:")
		var lines []string
		line := title
		for _, core := range cores {
			if core.Kind != kind {
				continue
			}
			word := "  " + core.CPUs.String()
			if len(indent)+len(line)+len(word) > width {
				lines, line = append(lines, line), strings.Repeat(" ", len(title))
			}
			line += word
		}
		if line != title {
			groups = append(groups, append(lines, line))
		}
	}
	return groups
}

// summary describes the machine in one line.
func summary(t *topology.Topology) string {
	fewest, most, memory := cpuset.Max, 0, int64(0)
	for _, core := range t.Cores {
		fewest, most = min(fewest, core.CPUs.Size()), max(most, core.CPUs.Size())
	}
	for _, n := range t.Nodes {
		memory += n.MemoryBytes
	}
	threads := unit.Count(most, "thread") + " a core"
	if fewest < most {
		threads = "up to " + threads
	}
	return strings.Join([]string{
		unit.Count(t.Online.Size(), "CPU"), unit.Count(len(t.Cores), "core"), threads, unit.Count(len(t.Sockets), "socket"),
		unit.Count(len(t.Nodes), "NUMA node"), fmt.Sprintf("%d L3", len(t.L3)), table.Bytes(memory), "topology " + t.Hash(),
	}, ", ")
}

// printRemarks prints CPU sets and warnings that are not in the tree.
func printRemarks(page *table.Page, t *topology.Topology, paint painter) {
	for _, set := range []struct {
		name string
		cpus cpuset.Set
	}{{"offline", t.Offline}, {"isolated", t.Isolated}, {"nohz_full", t.NoHzFull}, {"reserved", t.Reserved}} {
		if !set.cpus.IsEmpty() {
			page.Line("%s: %s", set.name, cpusText(set.cpus))
		}
	}
	for _, warning := range t.Warnings {
		page.WriteString(paint(yellow, "warning:"))
		page.Line(" %s", warning)
	}
}

// cpusText formats a set. It shows only the ends of a long list, as on machines that number their CPUs across sockets;
// the other formats have the full list.
func cpusText(s cpuset.Set) string {
	const longest, start = 72, 24
	list := s.String()
	switch {
	case s.IsEmpty():
		return "no CPU"
	case s.Size() == 1:
		return "CPU " + list
	case len(list) <= longest:
		return "CPUs " + list
	}
	head := list[:strings.LastIndexByte(list[:start], ',')]
	tail := list[strings.LastIndexByte(list, ',')+1:]
	return fmt.Sprintf("%d CPUs %s,…,%s", s.Size(), head, tail)
}

// painter applies a terminal style to a text.
type painter func(style, text string) string

const (
	bold   = "\x1b[1m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

func plain(_, text string) string { return text }

// paintFor returns a painter that adds colors only on an output with styles.
func paintFor(w io.Writer) painter {
	if o, is := w.(*output); !is || !o.styled {
		return plain
	}
	return func(style, text string) string { return style + text + reset }
}
