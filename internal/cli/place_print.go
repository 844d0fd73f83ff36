package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/cli/picture"
	"github.com/berth-project/berth/internal/value/table"
)

// print shows the cores of the machine with the chosen CPUs.
func (p *placedCPUs) print(w io.Writer) error {
	paint := paintFor(w)
	domains := strings.Join(append(numbered("NUMA node", p.NUMANodes), numbered("L3", p.L3)...), ", ")
	memory := strings.Join(numbered("NUMA node", slices.Collect(p.Mems.All())), "")
	drawn := p.picture()
	var text table.Page
	fmt.Fprintf(&text, "%s: %s; memory of %s\n\n", paint(bold, cpusText(p.CPUs)), domains, memory)
	text.WriteString(drawn.Text("  "))
	legend := []string{picture.Chosen.Legend()}
	if !p.LeftEmpty.IsEmpty() {
		legend = append(legend, picture.Empty.Legend())
	}
	legend = append(legend, picture.Taken.Legend(), picture.Off.Legend(), picture.Free.Legend())
	text.WriteString("\n  one word a core, one sign a thread: " + strings.Join(legend, ", ") + "\n\nwhy\n")
	for _, why := range p.Why {
		text.Line("  %s", why.Text)
	}
	return writeOutput(w, text.String())
}

// draw writes the same picture as an image.
func (p *placedCPUs) draw(w io.Writer) error {
	why := make([]string, len(p.Why))
	for i, reason := range p.Why {
		why[i] = reason.Text
	}
	return writeSVG(w, fmt.Sprintf("%s chosen", cpusText(p.CPUs)), []picture.Picture{p.picture()}, why...)
}

func (p *placedCPUs) picture() picture.Picture {
	return picture.Picture{Machine: p.machine, Mark: func(cpu int) picture.Mark {
		switch {
		case p.CPUs.Contains(cpu):
			return picture.Mark{Kind: picture.Chosen}
		case p.taken.Contains(cpu):
			return picture.Mark{Kind: picture.Taken}
		case p.LeftEmpty.Contains(cpu):
			return picture.Mark{Kind: picture.Empty}
		case !p.open.Contains(cpu):
			return picture.Mark{Kind: picture.Off}
		default:
			return picture.Mark{Kind: picture.Free}
		}
	}}
}

func numbered(what string, ids []int) []string {
	switch len(ids) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("%s %d", what, ids[0])}
	}
	if what != "L3" {
		what += "s"
	}
	return []string{what + " " + strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", ",")}
}
