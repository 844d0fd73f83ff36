package top

import (
	"fmt"
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
	byID, holders := make(map[int]view.CPU, len(s.now.CPUs)), placesOf(holdersOf(s.now))
	for _, c := range s.now.CPUs {
		byID[c.ID] = c
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
					word.WriteString(s.cell(byID[cpu], placeIn(holders, byID[cpu].Holder)))
				}
				f.add(word.String(), core.CPUs.Size(), 1)
			}
		}
		lines = append(lines, f.done()...)
	}
	return lines
}

// placeIn returns the place of a holder, -1 for none.
func placeIn(holders map[string]int, name string) int {
	if at, held := holders[name]; held {
		return at
	}
	return -1
}

// cell is a CPU with a holder as it is drawn.
type cell struct {
	holder   int
	sign     rune
	selected bool
}

// cell draws one CPU: the letter of its holder, the sign of its class, or its load in tenths.
func (s *screen) cell(c view.CPU, holder int) string {
	sign := signOf(c.Class)
	if holder >= 0 {
		sign = picture.Mark{Kind: picture.Held, Holder: holder}.Sign()
	}
	if s.loads {
		sign = ' '
		if c.Load >= 0 {
			sign = rune('0' + min(int(c.Load*10), 9))
		}
	}
	if holder < 0 {
		return string(sign)
	}
	return s.painted(cell{holder, sign, c.Holder == s.selected})
}

// painted returns the sign of a cell in the colours of its holder. Most cells are those of the frame before, and the
// colours take most of the time of a frame.
func (s *screen) painted(c cell) string {
	if text, known := s.made.cells[c]; known {
		return text
	}
	fill, ink := picture.HolderColours(c.holder)
	style := lipgloss.NewStyle().Background(lipgloss.Color(fill)).Foreground(lipgloss.Color(ink))
	if c.selected {
		style = style.Bold(true).Underline(true)
	}
	const most = 1 << 14
	if s.made.cells == nil || len(s.made.cells) == most {
		s.made.cells = map[cell]string{}
	}
	s.made.cells[c] = s.paint(style, string(c.sign))
	return s.made.cells[c]
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
