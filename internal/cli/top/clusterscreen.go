package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/berth-project/berth/internal/agent/view"
)

// nodeOrder is the sort order of nodes.
type nodeOrder int

const (
	byRoom nodeOrder = iota
	byNodeName
	byFragmentation
	byPinned
	nodeOrders
)

func (o nodeOrder) String() string {
	return [nodeOrders]string{byRoom: "room", byNodeName: "name", byFragmentation: "fragmentation", byPinned: "pinned pods"}[o]
}

func (o nodeOrder) compare(a, b view.Node) int {
	var c int
	switch o {
	case byNodeName:
		c = strings.Compare(a.Name, b.Name)
	case byFragmentation:
		c = cmp.Compare(b.Fragmentation, a.Fragmentation)
	case byPinned:
		c = cmp.Compare(b.Pinned, a.Pinned)
	}
	return cmp.Or(c, view.MoreRoom(a, b))
}

// clusterScreen is a view of a cluster with the user's selection.
type clusterScreen struct {
	now *view.Cluster // never nil
	canvas

	order    nodeOrder
	filter   string
	typing   bool // the user types the filter
	selected string
	pods     bool // show the pending pods instead of the nodes
	scroll   int
	// opening is the node whose agent is being asked. name is the node on screen; failed is why no node is.
	opening, name, failed string
}

const (
	clusterKeys = "q quit  up/down select  enter opens the node  / filter  s sort  p pending pods"
	podKeys     = "q quit  up/down scroll  p, esc back"
)

// shortest is the fewest lines of the node list, before details of the selected node are shown.
const shortest = 3

// Widths of the columns of the node list, except for the name and PINNABLE.
const (
	freeWidth, l3Width, fragmentedWidth, countWidth = 11, 10, 10, 6
	nodesRest                                       = 2 + freeWidth + l3Width + fragmentedWidth + 2*countWidth + 6
)

// frame returns all lines of the terminal.
func (s *clusterScreen) frame() string {
	head := []string{s.paint(lipgloss.NewStyle().Bold(true), clusterTitle(s.now))}
	if n := len(s.now.Problems); n > 0 {
		more := map[bool]string{true: fmt.Sprintf(" (and %d more)", n-1)}[n > 1]
		head = append(head, "problem"+more+": "+clean(s.now.Problems[0]))
	}
	last := s.paint(lipgloss.NewStyle().Faint(true), clusterKeys)
	switch {
	case s.typing:
		last = "filter: " + s.filter + "_  (enter keeps it, esc clears it)"
	case s.opening != "":
		last = "asking the agent of " + clean(s.opening) + "  (esc: no more)"
	case s.pods:
		last = s.paint(lipgloss.NewStyle().Faint(true), podKeys)
	}
	if s.pods {
		return s.frameOf(head, s.podLines()[min(s.scroll, len(s.podLines())):], last)
	}
	return s.frameOf(head, s.list(s.height-len(head)-1), last)
}

// list returns the nodes around the selected one, and details about it below.
func (s *clusterScreen) list(space int) []string {
	title := fmt.Sprintf("  %-*s %-*s %-*s %*s %*s %*s %s", s.nameWidth(), "NODE", freeWidth, "FREE CPUS", l3Width, "WHOLE L3",
		fragmentedWidth, "FRAGMENTED", countWidth, "PINNED", countWidth, "PODS", "PINNABLE")
	lines := []string{s.paint(lipgloss.NewStyle().Bold(true), title)}
	selected, nodes := s.found()
	about := []string{fmt.Sprintf("%d of %d nodes, by %s", len(nodes), len(s.now.Nodes), s.order)}
	if s.filter != "" {
		about[0] += ", filter: " + clean(s.filter)
	}
	if s.failed != "" {
		about = append(about, s.wrap(s.failed)...)
	} else if len(nodes) > 0 {
		about = append(about, s.wrap(nodes[selected].Name+": "+pinnable(&nodes[selected]))...)
	}
	about = about[:max(0, min(len(about), space-shortest))]
	room := max(0, space-len(lines)-len(about))
	first := max(0, min(selected-room/2, len(nodes)-room))
	for i := first; i < min(first+room, len(nodes)); i++ {
		lines = append(lines, s.line(&nodes[i], i == selected))
	}
	for len(lines) < space-len(about) {
		lines = append(lines, "")
	}
	return append(lines, about...)
}

func (s *clusterScreen) nameWidth() int { return max(narrowestName, (s.width-nodesRest)/2) }

// line formats one node.
func (s *clusterScreen) line(n *view.Node, selected bool) string {
	cells, cursor := nodeCells(n), " "
	if selected {
		cursor = ">"
	}
	free := "-"
	if n.CPUs > 0 {
		free = fmt.Sprintf("%d of %d", n.FreeCPUs, n.CPUs)
	}
	text := fmt.Sprintf("%s %-*s %-*s %-*s %*s %*s %*s %s", cursor, s.nameWidth(), tail(cells[0], s.nameWidth()), freeWidth, free,
		l3Width, cells[3], fragmentedWidth, cells[4], countWidth, cells[5], countWidth, cells[6], cells[7])
	if selected {
		return s.paint(lipgloss.NewStyle().Reverse(true), text)
	}
	return text
}

// found returns the sorted nodes that pass the filter and the index of the selected node, or 0 if it is gone.
func (s *clusterScreen) found() (selected int, nodes []view.Node) {
	wanted := strings.ToLower(s.filter)
	for i := range s.now.Nodes {
		if n := &s.now.Nodes[i]; strings.Contains(strings.ToLower(n.Name+" "+pinnable(n)), wanted) {
			nodes = append(nodes, *n)
		}
	}
	slices.SortStableFunc(nodes, s.order.compare)
	return max(0, slices.IndexFunc(nodes, func(n view.Node) bool { return n.Name == s.selected })), nodes
}

// podLines lists the pending pods with their reasons.
func (s *clusterScreen) podLines() []string {
	var lines []string
	for i := range s.now.Pending {
		p := &s.now.Pending[i]
		cells := podCells(p, s.now.At)
		head := fmt.Sprintf("%s  age %s  scheduler %s", cells[0], cells[2], clean(p.Scheduler))
		if p.CPUs > 0 {
			head += "  exclusive CPUs " + cells[1]
		}
		lines = append(lines, s.paint(lipgloss.NewStyle().Bold(true), head))
		lines = append(lines, s.wrap("  "+p.Why)...)
		if p.Condition != "" {
			lines = append(lines, s.wrap("  said by its scheduler: "+p.Condition)...)
		}
	}
	if more := s.now.PendingTotal - len(s.now.Pending); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if lines == nil {
		return []string{"no pod waits for a node"}
	}
	return lines
}

// move selects another node or scrolls the pods.
func (s *clusterScreen) move(by int) {
	if s.pods {
		s.scroll = max(0, min(s.scroll+by, len(s.podLines())-1))
		return
	}
	if i, nodes := s.found(); len(nodes) > 0 {
		s.selected = nodes[max(0, min(i+by, len(nodes)-1))].Name
	}
}
