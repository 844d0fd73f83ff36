package kernel

import (
	"context"
	"io"
	"slices"
)

// Cell is one kernel with one cgroup layout.
type Cell struct {
	Origin  string   // Who configured the kernel: "own" or "distro".
	Layout  string   // "v1", "v2" or "hybrid"; see guest/mounts.go.
	Without []string // Packages whose live tests it leaves out.
	Stride  int      // Which of many like repetitions its tests make; see job.Stride.
}

// stride has no factor in common with the three or four steps of a change, so that tests that
// die at every nth step die in each kind of step.
const stride = 7

// Matrix returns the cells that the live tests run in. Our own kernel, being the newer one,
// takes both versions of cgroups; the distribution's shows that an older kernel with all of
// its options behaves the same, in the layout that it is shipped with. If all is set, both
// take every layout, also the hybrid one, whose CPUs follow the rules of v1, and every cell
// takes every package, and all of the repetitions that a real machine makes.
func Matrix(all bool) []Cell {
	if all {
		return []Cell{
			{Origin: "own", Layout: "v2", Stride: 1},
			{Origin: "own", Layout: "v1", Stride: 1},
			{Origin: "own", Layout: "hybrid", Stride: 1},
			{Origin: "distro", Layout: "v2", Stride: 1},
			{Origin: "distro", Layout: "v1", Stride: 1},
			{Origin: "distro", Layout: "hybrid", Stride: 1},
		}
	}
	return []Cell{
		{Origin: "own", Layout: "v2", Stride: stride},
		{Origin: "own", Layout: "v1", Without: programs(), Stride: stride},
		{Origin: "distro", Layout: "v2", Without: programs(), Stride: stride},
	}
}

// programs returns the packages that run whole programs, most of them under load. What differs
// between kernels is asked by the packages below them; one cell shows that they run without the
// host's root.
func programs() []string { return []string{"internal/bench", "internal/cli", "internal/demo"} }

// Name is the cell's name for people and for -run, like "6.12-v2" or "6.1-distro-v2".
func (c Cell) Name(k Kernel) string {
	if c.Origin == "own" {
		return k.Series + "-" + c.Layout
	}
	return k.Series + "-" + c.Origin + "-" + c.Layout
}

// Takes says that the cell runs the tests of a package.
func (c Cell) Takes(cases Cases) bool { return !slices.Contains(c.Without, cases.Package) }

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
