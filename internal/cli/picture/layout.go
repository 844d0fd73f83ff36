package picture

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/table"
)

// Block is one NUMA node of a machine, or the cores without a NUMA node.
type Block struct {
	Title string
	// Sockets names the cores' sockets, empty if the machine has at most one.
	Sockets string
	Domains []Domain
}

// Domain is one L3 domain of a block, or the block's cores without an L3.
type Domain struct {
	Title string
	Cores []topology.Core
}

// Layout groups the cores of a machine by NUMA node in the order of the machine, and by L3 domain in the order of the
// domain's first core. It omits nodes without cores.
func Layout(t *topology.Topology) []Block {
	var blocks []Block
	add := func(title string, node topology.NodeID) {
		if domains := domainsOf(t, node); len(domains) > 0 {
			blocks = append(blocks, Block{title, socketsOf(t, domains), domains})
		}
	}
	for _, n := range t.Nodes {
		add(fmt.Sprintf("NUMA node %d, %s", n.ID, table.Bytes(n.MemoryBytes)), n.ID)
	}
	add("no NUMA node", topology.None)
	return blocks
}

func domainsOf(t *topology.Topology, node topology.NodeID) []Domain {
	var domains []Domain
	at := map[topology.L3ID]int{}
	for _, core := range t.Cores {
		if core.Node != node {
			continue
		}
		i, there := at[core.L3]
		if !there {
			i = len(domains)
			at[core.L3] = i
			domains = append(domains, Domain{Title: domainTitle(core.L3)})
		}
		domains[i].Cores = append(domains[i].Cores, core)
	}
	return domains
}

func domainTitle(id topology.L3ID) string {
	if id == topology.None {
		return "no L3"
	}
	return fmt.Sprintf("L3 %d", id)
}

// socketsOf names the sockets of a block's cores, "" if the machine has at most one.
func socketsOf(t *topology.Topology, domains []Domain) string {
	if len(t.Sockets) < 2 {
		return ""
	}
	var ids cpuset.Set
	for _, domain := range domains {
		for _, core := range domain.Cores {
			if core.Socket != topology.None {
				ids = ids.Add(int(core.Socket))
			}
		}
	}
	switch {
	case ids.IsEmpty():
		return ""
	case ids.Size() == 1:
		return "socket " + ids.String()
	default:
		return "sockets " + ids.String()
	}
}

// coresALine and signsALine bound the width of a line of text.
const (
	coresALine = 24
	signsALine = 96
)

// Text draws a line for each L3 domain, grouped by NUMA node. The line has a word for each core and a sign for each
// thread. Each line begins with indent.
func (p *Picture) Text(indent string) string {
	var b strings.Builder
	for _, block := range Layout(p.Machine) {
		b.WriteString(indent + block.Title + "\n")
		for _, domain := range block.Domains {
			for _, line := range p.lines(domain) {
				b.WriteString(indent + "  " + line + "\n")
			}
		}
	}
	return b.String()
}

// lines draws one domain, in several lines if it has many cores.
func (p *Picture) lines(domain Domain) []string {
	var lines []string
	title := fmt.Sprintf("%-7s", domain.Title)
	words := make([]string, len(domain.Cores))
	for i, core := range domain.Cores {
		words[i] = p.word(core)
	}
	for rest := words; len(rest) > 0; title = strings.Repeat(" ", len(title)) {
		n := min(len(rest), coresALine, max(1, signsALine/(len(rest[0])+1)))
		lines = append(lines, title+strings.Join(rest[:n], " "))
		rest = rest[n:]
	}
	return lines
}

func (p *Picture) word(core topology.Core) string {
	var b strings.Builder
	for cpu := range core.CPUs.All() {
		b.WriteRune(p.Mark(cpu).Sign())
	}
	return b.String()
}
