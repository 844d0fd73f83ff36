package kernel

import (
	"context"
	"io"
)

// Cell is one kernel with one cgroup layout.
type Cell struct {
	Origin string // Who configured the kernel: "own" or "distro".
	Layout string // "v1", "v2" or "hybrid"; see guest/mounts.go.
}

// Matrix returns the cells that the live tests run in. Our own kernel, being the newer one,
// takes every layout; the distribution's shows that an older kernel with all of its options
// behaves the same, in the layout that it is shipped with or, if all is set, in every layout.
func Matrix(all bool) []Cell {
	cells := []Cell{
		{Origin: "own", Layout: "v2"},
		{Origin: "own", Layout: "v1"},
		{Origin: "own", Layout: "hybrid"},
		{Origin: "distro", Layout: "v2"},
	}
	if all {
		cells = append(cells, Cell{Origin: "distro", Layout: "v1"}, Cell{Origin: "distro", Layout: "hybrid"})
	}
	return cells
}

// Name is the cell's name for people and for -run, like "6.12-v2" or "6.1-distro-v2".
func (c Cell) Name(k Kernel) string {
	if c.Origin == "own" {
		return k.Series + "-" + c.Layout
	}
	return k.Series + "-" + c.Origin + "-" + c.Layout
}

// Kernels returns the kernel of each origin, built or downloaded if need be.
func Kernels(ctx context.Context, log io.Writer) (map[string]Kernel, error) {
	own, err := Own(ctx, log)
	if err != nil {
		return nil, err
	}
	distro, err := Distro(ctx, log)
	if err != nil {
		return nil, err
	}
	return map[string]Kernel{"own": own, "distro": distro}, nil
}
