package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// print shows the cores of the machine with the chosen CPUs.
func (p *placedCPUs) print(w io.Writer) error {
	paint := paintFor(w)
	domains := strings.Join(append(numbered("NUMA node", p.NUMANodes), numbered("L3", p.L3)...), ", ")
	memory := strings.Join(numbered("NUMA node", slices.Collect(p.Mems.All())), "")
	if _, err := fmt.Fprintf(w, "%s: %s; memory of %s\n\n", paint(bold, cpusText(p.CPUs)), domains, memory); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	err := drawCores(w, p.machine, "  ", func(cpu int) rune {
		switch {
		case p.CPUs.Contains(cpu):
			return signChosen
		case p.taken.Contains(cpu):
			return signTaken
		case p.LeftEmpty.Contains(cpu):
			return signEmpty
		case !p.open.Contains(cpu):
			return signOff
		default:
			return signFree
		}
	})
	if err != nil {
		return err
	}
	var text strings.Builder
	legend := "# chosen, x taken, - not to be had, . free"
	if !p.LeftEmpty.IsEmpty() {
		legend = "# chosen, " + legendEmpty + ", x taken, - not to be had, . free"
	}
	text.WriteString("\n  one word a core, one sign a thread: " + legend + "\n\nwhy\n")
	for _, why := range p.Why {
		text.WriteString("  " + why.Text + "\n")
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
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
