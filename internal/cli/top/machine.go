package top

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/cli/picture"
)

// signOf returns the sign of a CPU that no workload has exclusively, by its class.
func signOf(class string) rune {
	switch class {
	case "shared":
		return '.'
	case "offline":
		return '%'
	case "exclusive": // an SMT sibling that stays empty
		return '_'
	case "reserved":
		return '-'
	default:
		return '?'
	}
}

// legend lists the pools with the signs of their CPUs.
func (s *screen) legend() string {
	var words []string
	for _, p := range s.now.Pools {
		if p.CPUs.IsEmpty() && p.Name != "free" {
			continue
		}
		word := clean(p.Name) + " " + p.CPUs.Named()
		if sign := signOf(p.Name); sign != '?' {
			word += fmt.Sprintf(" (%c)", sign)
		}
		words = append(words, word)
	}
	return strings.Join(words, "  ")
}

// blocks draws the machine: NUMA nodes, their L3 domains, and the cores with a sign for each thread. A line has as many
// cores as fit.
func (s *screen) blocks() []string {
	if s.now.Machine == nil {
		return []string{"the machine is not known yet"}
	}
	cells, holders := map[int]view.CPU{}, holdersOf(s.now)
	for _, c := range s.now.CPUs {
		cells[c.ID] = c
	}
	var lines []string
	for _, b := range picture.Layout(s.now.Machine) {
		title := b.Title
		if b.Sockets != "" {
			title += ", " + b.Sockets
		}
		lines = append(lines, title)
		f := flow{most: s.width, indent: "  "}
		for _, d := range b.Domains {
			f.add(d.Title+":", len(d.Title)+1, 2)
			for _, core := range d.Cores {
				var word strings.Builder
				for cpu := range core.CPUs.All() {
					word.WriteString(s.cell(cells[cpu], slices.Index(holders, cells[cpu].Holder)))
				}
				f.add(word.String(), core.CPUs.Size(), 1)
			}
		}
		lines = append(lines, f.done()...)
	}
	return lines
}

// cell draws one CPU: the letter of its holder, the sign of its class, or its load in tenths.
func (s *screen) cell(c view.CPU, holder int) string {
	sign, style := signOf(c.Class), lipgloss.NewStyle()
	if holder >= 0 {
		sign = picture.Mark{Kind: picture.Held, Holder: holder}.Sign()
		fill, ink := picture.HolderColours(holder)
		style = style.Background(lipgloss.Color(fill)).Foreground(lipgloss.Color(ink))
		if c.Holder == s.selected {
			style = style.Bold(true).Underline(true)
		}
	}
	if s.loads {
		sign = ' '
		if c.Load >= 0 {
			sign = rune('0' + min(int(c.Load*10), 9))
		}
	}
	return s.paint(style, string(sign))
}

// flow wraps words into lines.
type flow struct {
	most   int
	indent string
	lines  []string
	line   string
	used   int
}

// add appends a word of the given width to the line, or begins a new line.
func (f *flow) add(word string, columns, gap int) {
	switch {
	case f.line == "":
		f.line, f.used = f.indent+word, len(f.indent)+columns
		return
	case f.used+gap+columns > f.most:
		f.lines = append(f.lines, f.line)
		f.line, f.used = f.indent+word, len(f.indent)+columns
		return
	}
	for range gap {
		f.line += " "
	}
	f.line, f.used = f.line+word, f.used+gap+columns
}

func (f *flow) done() []string {
	if f.line == "" {
		return f.lines
	}
	return append(f.lines, f.line)
}
