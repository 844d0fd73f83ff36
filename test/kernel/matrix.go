package kernel

import (
	"context"
	"errors"
	"fmt"
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

// Matrix returns the cells that the live tests run in. By itself it is one: the distribution's
// kernel, an older one with all of its options, in the layout that it is shipped with. If all is
// set, that one and our own, newer one take every layout, also the hybrid one, whose CPUs follow
// the rules of v1. Every cell takes every package then, and all of the repetitions that a real
// machine makes.
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
	return []Cell{{Origin: "distro", Layout: "v2", Without: timed(), Stride: stride}}
}

// timed returns the packages that the one cell leaves out: those that run whole programs under
// load, fill nodes, or judge by the clock, which runs on while an emulated processor waits.
func timed() []string {
	return []string{"internal/bench", "internal/cli", "internal/demo", "internal/doctor", "internal/mover"}
}

// unsettling returns the tests that the one cell leaves out. Two turn trace events of the scheduler on,
// for which the kernel changes its own code and interrupts every processor (text_poke_bp): now and then
// an emulated one does not answer, and the kernel waits for good. The third keeps every processor busy
// for a minute, within which one on a busy machine may do too little. The next takes processors off and
// on, at which one is reset now and then. The last moves memory for minutes. The whole matrix has them.
func unsettling() []string {
	return []string{
		"internal/agent.TestLiveSidesKeepToTheirCores", "internal/agent.TestLiveSidesShareNoCore",
		"internal/tuner.TestLiveDeadlineUnderRealTimeHogs", "internal/tuner.TestLiveApplyThatStarvesItself",
		"internal/driver/cookie.TestLiveCookieWithoutSiblings",
		"internal/agent.TestLiveMemsOfARunningGroup",
	}
}

// less returns the cases without some tests, each named by its package directory, a dot and the test.
// It is an error where there is no such test.
func less(all []Cases, tests []string) ([]Cases, error) {
	left := slices.Clone(all)
	for _, test := range tests {
		found := false
		for i, c := range left {
			left[i].Tests = slices.DeleteFunc(slices.Clone(c.Tests), func(name string) bool { return c.Package+"."+name == test })
			found = found || len(left[i].Tests) < len(c.Tests)
		}
		if !found {
			return nil, fmt.Errorf("%s: %w", test, ErrNoTest)
		}
	}
	return left, nil
}

// ErrNoTest says that a list names a test that is not there.
var ErrNoTest = errors.New("no such live test")

// Name is the cell's name for people and for -run, like "6.12-v2" or "6.1-distro-v2".
func (c Cell) Name(k Kernel) string {
	if c.Origin == "own" {
		return k.Series + "-" + c.Layout
	}
	return k.Series + "-" + c.Origin + "-" + c.Layout
}

// Takes says that the cell runs the tests of a package.
func (c Cell) Takes(cases Cases) bool { return !slices.Contains(c.Without, cases.Package) }

// Kernels returns the kernel of each origin, built or downloaded if need be: of the distribution's
// alone, or all.
func Kernels(ctx context.Context, log io.Writer, all bool) (map[string]Kernel, error) {
	distro, err := Distro(ctx, log)
	if err != nil || !all {
		return map[string]Kernel{"distro": distro}, err
	}
	own, err := Own(ctx, log)
	if err != nil {
		return nil, err
	}
	return map[string]Kernel{"own": own, "distro": distro}, nil
}
