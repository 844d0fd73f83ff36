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
	Without []string // Packages whose live tests it omits.
	Stride  int      // Which of many similar repetitions its tests make; see job.Stride.
}

// stride has no factor in common with the three or four steps of a change, so that tests that die at every nth step die
// in each kind of step.
const stride = 7

// Matrix returns the cells that the live tests run in. By default it is one cell: the distribution's kernel, an older
// kernel with all of its options, in its usual layout. If all is set, both this kernel and Berth's own newer kernel run
// in every layout, including the hybrid layout, whose CPUs follow the rules of v1. Every cell then runs every package,
// with all repetitions that a real machine makes.
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

// timed returns the packages that the single cell omits. They run whole programs under load, fill nodes, or measure
// time by the clock, which continues while an emulated processor waits.
func timed() []string {
	return []string{"internal/proof/bench", "internal/cli", "internal/proof/demo", "internal/doctor", "internal/capability/localize/mover"}
}

// unsettling returns the tests that the single cell omits; the whole matrix runs them. Two enable trace events of the
// scheduler, for which the kernel changes its own code and interrupts every processor (text_poke_bp). Sometimes an
// emulated processor does not answer, and the kernel waits forever. The third keeps every processor busy for a minute,
// in which a processor on a busy machine may do too little. The next four take processors offline and online, which
// sometimes resets one or stalls the guest. The last moves memory for minutes.
func unsettling() []string {
	return []string{
		"internal/agent.TestLiveSidesKeepToTheirCores", "internal/agent.TestLiveSidesShareNoCore",
		"internal/capability/tune/tuner.TestLiveDeadlineUnderRealTimeHogs", "internal/capability/tune/tuner.TestLiveApplyThatStarvesItself",
		"internal/engine/driver/cookie.TestLiveCookieWithoutSiblings", "internal/engine/apply.TestLiveUnplugBetweenIsolateSteps",
		"internal/capability/tune/tuner.TestLivePartitionHotplug", "internal/capability/tune/tuner.TestLiveCPUGoneSincePlan",
		"internal/agent.TestLiveMemsOfARunningGroup",
		"internal/agent.TestLiveAbuserFallsBackToItsLimit", "internal/agent.TestLiveBlockedWayBackGoesAsFarAsItCan",
	}
}

// less returns the cases without some tests, each named by its package directory, a dot and the test. A test that does
// not exist is an error.
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

// ErrNoTest reports that a list names a test that does not exist.
var ErrNoTest = errors.New("no such live test")

// Name returns the cell's name for people and for -run, such as "6.12-v2" or "6.1-distro-v2".
func (c Cell) Name(k Kernel) string {
	if c.Origin == "own" {
		return k.Series + "-" + c.Layout
	}
	return k.Series + "-" + c.Origin + "-" + c.Layout
}

// Takes reports whether the cell runs the tests of a package.
func (c Cell) Takes(cases Cases) bool { return !slices.Contains(c.Without, cases.Package) }

// Kernels returns the kernel of each origin, built or downloaded if necessary: only the distribution's, or all.
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
