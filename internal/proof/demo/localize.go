package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/proof/bench"
)

// The memory of the part localize, and the length of its pass under a limit.
const (
	movedMiB = 64
	slowly   = 2 * time.Second
)

// localize shows the pages of a process on the wrong NUMA node, before and after a pass of the mover. Moved pages have no
// way back, and need none.
type localize struct{ Options }

func (p *localize) lacks() string {
	n := 0
	for _, node := range p.Host.Nodes {
		if !node.CPUs.IsEmpty() && node.MemoryBytes > 0 {
			n++
		}
	}
	if n < 2 {
		return "this machine has one NUMA node: every page is local"
	}
	return ""
}

func (p *localize) show(ctx context.Context, r *Report) (string, error) {
	measured, err := bench.RunLocality(ctx, bench.LocalityOptions{
		Options: bench.Options{Machine: p.Machine, Repetitions: 1, Quick: true, Progress: func(step string) { p.Progress("localize: " + step) }},
		Place:   p.Home.Place, Root: p.Home.Place.Host.Root(), MiB: movedMiB, Limited: slowly, Window: slowly,
	})
	if errors.Is(err, bench.ErrMissing) {
		return err.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("move pages: %w", err)
	}
	table := Part{
		Capability: "localize", Title: "memory of a process on the wrong NUMA node, moved; it stays where it is now",
		Header: []string{"BEGINS WITH", "LOCAL BEFORE", "LOCAL AFTER", "MOVED MIB", "TOOK MS"},
	}
	for _, t := range measured.Trials {
		table.Rows = append(table.Rows, []string{
			t.Start, fmt.Sprintf("%.1f %%", t.StartPercent), fmt.Sprintf("%.1f %%", t.EndPercent), fmt.Sprint(t.PassBytes >> 20), fmt.Sprintf("%.0f", t.PassSeconds*1000),
		})
	}
	r.Parts = append(r.Parts, table)
	return "", nil
}

func (p *localize) close() error { return nil }
