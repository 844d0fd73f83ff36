package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/load"
)

// What a verdict on the bound needs at least.
const (
	leastLooks   = 100_000
	leastStrikes = 50
	// guardOff is the sharePoolThresholdPercent without a node guard, which lowers quotas that the credit would pay for.
	guardOff = 100
)

// AbuseBound is the bound of the burst law for an abuser, and what it depends on.
type AbuseBound struct {
	// LatenessSeconds is S, the largest lateness of a sample of the agent.
	LatenessSeconds float64 `json:"latenessSeconds"`
	// KernelModeSeconds is X, what all threads can use at once after the kernel has throttled them.
	KernelModeSeconds float64 `json:"kernelModeCPUSeconds"`
	// Seconds is by how many CPU-seconds the use may exceed the limit over any window. WithoutKernelMode is the same
	// without X.
	Seconds           float64 `json:"cpuSeconds"`
	WithoutKernelMode float64 `json:"withoutKernelModeCPUSeconds"`
}

// boundOf returns the bound of a group with a credit of so many seconds. call is the longest time of a system call in
// which each thread of the abuser continues after it was throttled.
func (o AbuseOptions) boundOf(f credit.Facts, seconds int, late, call time.Duration) *AbuseBound {
	all := time.Duration(o.Threads) * call
	perCPU := all / time.Duration(max(f.CPUs, 1))
	return &AbuseBound{
		LatenessSeconds: late.Seconds(), KernelModeSeconds: all.Seconds(),
		Seconds:           float64(credit.Bound(policy(seconds), f, late, perCPU)),
		WithoutKernelMode: float64(credit.Bound(policy(seconds), f, late, 0)),
	}
}

// lateness asks an agent for S.
func lateness(ctx context.Context, agent *Agent) (time.Duration, error) {
	said, err := window.View(ctx, agent.StateDir())
	if err != nil {
		return 0, fmt.Errorf("ask the agent for S: %w", err)
	}
	return latenessIn(said)
}

var errNoLateness = errors.New("the agent did not say S")

// latenessIn returns S from the view of an agent.
func latenessIn(said []byte) (time.Duration, error) {
	var view struct {
		Node map[string]json.RawMessage `json:"node"`
	}
	var node struct {
		LatenessSeconds *float64 `json:"latenessSeconds"`
	}
	if err := json.Unmarshal(said, &view); err != nil {
		return 0, fmt.Errorf("%w: %w", errNoLateness, err)
	}
	if said := view.Node[burst.KeyNode]; said != nil {
		if err := json.Unmarshal(said, &node); err != nil {
			return 0, fmt.Errorf("%w: %w", errNoLateness, err)
		}
	}
	if node.LatenessSeconds == nil {
		return 0, errNoLateness
	}
	return time.Duration(*node.LatenessSeconds * float64(time.Second)), nil
}

// callTimes measures long system calls on as many threads as an abuser has, if an abuser makes some and the kernel lets
// throttled threads continue in them, as Linux does from 6.18 on.
func (o AbuseOptions) callTimes(ctx context.Context, place Place) (load.CallTimes, error) {
	calls := func(a abuser) bool { return a.calls != load.NoCalls && slices.Contains(o.Abusers, a.name) }
	if !slices.ContainsFunc(allAbusers(), calls) {
		return nil, nil
	}
	if stops, err := kernel.Before(place.Host.Root(), 6, 18); stops || err != nil {
		return nil, err
	}
	printed, err := Command(ctx, "load", "calls", "--threads", strconv.Itoa(o.Threads))
	if err != nil {
		return nil, err
	}
	var times load.CallTimes
	if err := json.Unmarshal([]byte(printed), &times); err != nil {
		return nil, fmt.Errorf("times of system calls: %w", err)
	}
	return times, nil
}

// boundGoal judges the use over all windows. One window above the bound is enough for a miss. There is no verdict while
// the node guard lowers quotas: a fall to the limit then need not be a strike.
func boundGoal(a Abuse) Goal {
	goal := fmt.Sprintf("use of the abuser (%s) over any window <= the bound", a.Mode)
	if a.Bound == nil {
		return Goal{goal, a.Unbounded, Open}
	}
	measured := fmt.Sprintf("%.3f of %.3f s", a.ExcessSeconds, a.Bound.Seconds)
	switch {
	case a.ExcessSeconds > a.Bound.Seconds:
		return Goal{goal, measured, Missed}
	case a.Threshold != guardOff:
		return Goal{goal, fmt.Sprintf("%s; the node guard was on: --share-pool-threshold %d wanted", measured, guardOff), Open}
	case a.Strikes < leastStrikes:
		return Goal{goal, fmt.Sprintf("%s; %d of %d strikes", measured, a.Strikes, leastStrikes), Open}
	case a.Looks < leastLooks:
		return Goal{goal, fmt.Sprintf("%s; %d of %d samples", measured, a.Looks, leastLooks), Open}
	case a.ExcessSeconds+a.UnseenSeconds > a.Bound.Seconds:
		return Goal{goal, fmt.Sprintf("%s; up to %.3f s more between samples", measured, a.UnseenSeconds), Open}
	}
	return Goal{goal, measured, Met}
}

// boundHeader is the header of boundRows.
func boundHeader() []string {
	return []string{"ABUSER", "OVER ANY WINDOW", "LIMIT ALONE", "CREDIT", "BOUND", "WITHOUT X", "S", "X", "SAMPLES", "UNSEEN", "STRIKES"}
}

// boundRows say by how much each abuser exceeded its limit, with Berth and with the limit alone, by how much it may, and
// whether it would be within the bound without X.
func boundRows(abusers []Abuse) [][]string {
	rows := make([][]string, 0, len(abusers))
	for _, a := range abusers {
		alone, bound, without, late, kernelMode := NotAvailable, NotAvailable, NotAvailable, NotAvailable, NotAvailable
		if a.Alone != nil {
			alone = fmt.Sprintf("%.3f s", a.Alone.ExcessSeconds)
		}
		if b := a.Bound; b != nil {
			holds := "holds"
			if a.ExcessSeconds > b.WithoutKernelMode {
				holds = "exceeded"
			}
			bound, without = fmt.Sprintf("%.3f s", b.Seconds), fmt.Sprintf("%.3f s, %s", b.WithoutKernelMode, holds)
			late, kernelMode = fmt.Sprintf("%.1f ms", 1000*b.LatenessSeconds), fmt.Sprintf("%.3f s", b.KernelModeSeconds)
		}
		rows = append(rows, []string{
			a.Mode, fmt.Sprintf("%.3f s", a.ExcessSeconds), alone, fmt.Sprintf("%.3f s", a.CreditSeconds),
			bound, without, late, kernelMode, fmt.Sprint(a.Looks), fmt.Sprintf("%.3f s", a.UnseenSeconds), fmt.Sprint(a.Strikes),
		})
	}
	return rows
}
