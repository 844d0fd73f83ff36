package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// AgentCost is the cost of the agent itself with a number of groups.
type AgentCost struct {
	Groups int `json:"groups"`
	// RSSMiB is the agent's peak resident memory (VmHWM).
	RSSMiB float64 `json:"rssMiB"`
	// CPUMicrosPerSecond is the agent's CPU time in microseconds per second.
	CPUMicrosPerSecond float64 `json:"cpuMicrosPerSecond"`
	// WritesPerGroupSecond is measured in the steady state.
	WritesPerGroupSecond float64 `json:"writesPerGroupPerSecond"`
	Seconds              float64 `json:"seconds"`
}

// AgentReport is the outcome of bench agent. Its JSON is a stable contract.
type AgentReport struct {
	Machine Machine     `json:"machine"`
	Costs   []AgentCost `json:"costs"`
	// MicrosPerGroupSecond is the slope of the CPU time between the smallest and the largest number of groups.
	MicrosPerGroupSecond float64 `json:"cpuMicrosPerGroupPerSecond"`
	Goals                []Goal  `json:"goals"`
}

// AgentOptions configures bench agent.
type AgentOptions struct {
	Place   Place
	Machine Machine
	// Groups are the numbers of groups, ascending; a slope needs at least two.
	Groups  []int
	Measure time.Duration
	// Progress is called with the current step; it may be nil.
	Progress func(string)
}

const (
	// goalRSS applies up to fewGroups groups, goalRSSMany beyond.
	goalRSS         = 40.0
	goalRSSMany     = 60.0
	fewGroups       = 50
	goalGroupMicros = 40.0
	// agentSettle lets the agent finish its start before it is measured.
	agentSettle = 3 * time.Second
	// agentLimit is the limit of each idle group.
	agentLimit unit.CPUs = 0.5
)

// RunAgentCost measures the agent with each number of groups, each with a limit, a policy and one sleeping process.
func RunAgentCost(ctx context.Context, o AgentOptions) (*AgentReport, error) {
	r := &AgentReport{Machine: o.Machine}
	for _, n := range o.Groups {
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("agent with %d groups", n))
		}
		cost, err := measureAgent(ctx, o, n)
		if err != nil {
			return nil, fmt.Errorf("agent with %d groups: %w", n, err)
		}
		r.Costs = append(r.Costs, cost)
	}
	r.judge()
	return r, nil
}

func measureAgent(ctx context.Context, o AgentOptions, n int) (cost AgentCost, err error) {
	var stages []*Stage
	defer func() {
		for _, s := range slices.Backward(stages) {
			err = errors.Join(err, s.Close())
		}
	}()
	workloads := make([]AgentWorkload, 0, n)
	for i := range n {
		stage, err := OpenStage(o.Place, fmt.Sprintf("idle%d", i), agentLimit.Quota(Period), "hold")
		if err != nil {
			return AgentCost{}, err
		}
		stages = append(stages, stage)
		workloads = append(workloads, AgentWorkload{
			Name: fmt.Sprintf("idle%d", i), Cgroup: stage.Path(), LimitCPUs: float64(agentLimit), Burst: DefaultBurst(),
		})
	}
	agent, err := StartAgent(o.Place.Threshold, workloads)
	if err != nil {
		return AgentCost{}, err
	}
	defer func() { err = errors.Join(err, agent.Remove()) }()
	if err := AwaitRaise(ctx, agent, agentLimit, stages...); err != nil {
		return AgentCost{}, err
	}
	if err := load.Pause(ctx, agentSettle); err != nil {
		return AgentCost{}, err
	}
	return agent.cost(ctx, n, o.Measure)
}

func (a *Agent) cost(ctx context.Context, groups int, d time.Duration) (AgentCost, error) {
	writes, err := a.Writes()
	if err != nil {
		return AgentCost{}, err
	}
	used, err := ProcessCPU(a.PID())
	if err != nil {
		return AgentCost{}, err
	}
	begin := time.Now()
	if err := load.Pause(ctx, d); err != nil {
		return AgentCost{}, err
	}
	usedAfter, err := ProcessCPU(a.PID())
	if err != nil {
		return AgentCost{}, err
	}
	seconds := time.Since(begin).Seconds()
	writesAfter, err := a.Writes()
	if err != nil {
		return AgentCost{}, err
	}
	rss, err := PeakRSS(a.PID())
	if err != nil {
		return AgentCost{}, err
	}
	return AgentCost{
		Groups:               groups,
		RSSMiB:               rss,
		CPUMicrosPerSecond:   float64((usedAfter - used).Microseconds()) / seconds,
		WritesPerGroupSecond: float64(writesAfter-writes) / seconds / float64(groups),
		Seconds:              seconds,
	}, nil
}

func (r *AgentReport) judge() {
	var writes float64
	for _, c := range r.Costs {
		writes = max(writes, c.WritesPerGroupSecond)
		goal := goalRSSMany
		if c.Groups <= fewGroups {
			goal = goalRSS
		}
		r.Goals = append(r.Goals, Goal{
			fmt.Sprintf("agent resident memory with %d groups <= %.0f MiB (peak)", c.Groups, goal),
			fmt.Sprintf("%.1f MiB", c.RSSMiB), VerdictOf(c.RSSMiB <= goal),
		})
	}
	slope := Goal{"agent CPU per group per second <= 40 µs (slope)", "one number of groups has no slope", Open}
	if first, last := r.Costs[0], r.Costs[len(r.Costs)-1]; last.Groups > first.Groups {
		r.MicrosPerGroupSecond = (last.CPUMicrosPerSecond - first.CPUMicrosPerSecond) / float64(last.Groups-first.Groups)
		slope.Measured = fmt.Sprintf("%.1f µs", r.MicrosPerGroupSecond)
		slope.Verdict = VerdictOf(r.MicrosPerGroupSecond <= goalGroupMicros)
	}
	r.Goals = append(r.Goals, slope,
		Goal{"steady state <= 0.05 writes a second a group", fmt.Sprintf("%.4f", writes), VerdictOf(writes <= goalWritesPerSec)})
}

// WriteAgentTable prints an agent report for people.
func WriteAgentTable(w io.Writer, r *AgentReport) error {
	p := NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	rows := make([][]string, 0, len(r.Costs))
	for _, c := range r.Costs {
		rows = append(rows, []string{
			strconv.Itoa(c.Groups), fmt.Sprintf("%.1f", c.RSSMiB), fmt.Sprintf("%.0f", c.CPUMicrosPerSecond),
			fmt.Sprintf("%.4f", c.WritesPerGroupSecond), fmt.Sprintf("%.0f s", c.Seconds),
		})
	}
	p.Table([]string{"GROUPS", "PEAK RSS MIB", "CPU µS/S", "WRITES/GROUP/S", "MEASURED"}, rows)
	p.Line("")
	p.Goals(r.Goals)
	return p.Err()
}

// ProcessCPU returns the CPU time of all threads of a process, from the first column (nanoseconds) of
// /proc/PID/task/TID/schedstat. /proc/PID/stat counts in ticks of 10 ms and would round most of an agent's work away.
// The time of an ended thread is lost; Go's runtime keeps the agent's threads.
func ProcessCPU(pid int) (time.Duration, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("CPU time of %d: %w", pid, err)
	}
	var total time.Duration
	for _, thread := range threads {
		data, err := os.ReadFile(dir + "/" + thread.Name() + "/schedstat")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("CPU time of %d: %w", pid, err)
		}
		first, _, _ := strings.Cut(string(data), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time of %d: schedstat %q: %w", pid, data, err)
		}
		total += time.Duration(ns)
	}
	return total, nil
}

// PeakRSS returns VmHWM of /proc/PID/status in MiB.
func PeakRSS(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("memory of %d: %w", pid, err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				return 0, fmt.Errorf("memory of %d: %q: %w", pid, line, err)
			}
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("memory of %d: no VmHWM: %w", pid, ErrChild)
}
