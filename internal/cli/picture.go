package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// Signs of a CPU in a picture of cores.
const (
	signFree   = '.'
	signTaken  = 'x'
	signChosen = '#'
	signEmpty  = '_' // a sibling that exclusivity keeps from all pods
	signOff    = '-' // reserved, isolated, or an efficiency core that no request allows
)

// legendEmpty says what signEmpty is.
const legendEmpty = string(signEmpty) + " sibling left empty"

// coresALine and signsALine bound the width of a picture.
const (
	coresALine = 24
	signsALine = 96
)

// drawCores prints a line for each L3 domain, grouped by NUMA node, with a word
// for each core and a sign for each of its threads.
func drawCores(w io.Writer, t *topology.Topology, indent string, sign func(cpu int) rune) error {
	var b strings.Builder
	draw := func(title string, lines []string) {
		if len(lines) > 0 {
			b.WriteString(indent + title + "\n" + indent + "  " + strings.Join(lines, "\n"+indent+"  ") + "\n")
		}
	}
	for _, n := range t.Nodes {
		draw(fmt.Sprintf("NUMA node %d, %s", n.ID, bytesText(n.MemoryBytes)), nodeLines(t, n.ID, sign))
	}
	draw("no NUMA node", nodeLines(t, topology.None, sign))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// efficiencyCPUs are those of the efficiency cores.
func efficiencyCPUs(t *topology.Topology) cpuset.Set {
	var slow cpuset.Set
	for _, core := range t.Cores {
		if core.Kind == topology.KindEfficiency {
			slow = slow.Union(core.CPUs)
		}
	}
	return slow
}

// nodeLines draws the cores of one NUMA node by L3 domain.
func nodeLines(t *topology.Topology, node topology.NodeID, sign func(cpu int) rune) []string {
	words := map[topology.L3ID][]string{}
	var order []topology.L3ID
	for _, core := range t.Cores {
		if core.Node != node {
			continue
		}
		if len(words[core.L3]) == 0 {
			order = append(order, core.L3)
		}
		words[core.L3] = append(words[core.L3], coreWord(core.CPUs, sign))
	}
	var lines []string
	for _, l3 := range order {
		title := fmt.Sprintf("L3 %-4d", l3)
		if l3 == topology.None {
			title = "no L3  "
		}
		for rest := words[l3]; len(rest) > 0; title = strings.Repeat(" ", len(title)) {
			n := min(len(rest), coresALine, max(1, signsALine/(len(rest[0])+1)))
			lines = append(lines, title+strings.Join(rest[:n], " "))
			rest = rest[n:]
		}
	}
	return lines
}

func coreWord(cpus cpuset.Set, sign func(cpu int) rune) string {
	var b strings.Builder
	for cpu := range cpus.All() {
		b.WriteRune(sign(cpu))
	}
	return b.String()
}
