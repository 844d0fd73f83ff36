package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	// goalRSS applies up to fewGroups groups, GoalRSSMany beyond, in MiB.
	goalRSS = 40.0
	// GoalRSSMany is the agent's memory with many groups.
	GoalRSSMany = 60.0
	fewGroups   = 50
	// GoalGroupMicros is the agent's CPU time for a group, in µs a second.
	GoalGroupMicros = 40.0
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
	agent, err := StartAgent(AgentSetup{Threshold: o.Place.Threshold, Workloads: workloads})
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
		goal := GoalRSSMany
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
		slope.Verdict = VerdictOf(r.MicrosPerGroupSecond <= GoalGroupMicros)
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

// ProcessCPU returns the CPU time of all threads of a process from their schedstat. /proc/PID/stat counts in ticks of 10
// ms and would round most of an agent's work away. The time of an ended thread is lost; Go's runtime keeps the agent's
// threads.
func ProcessCPU(pid int) (time.Duration, error) {
	total, _, err := schedstat(os.DirFS("/"), pid, ran)
	if err != nil {
		return 0, fmt.Errorf("CPU time of %d: %w", pid, err)
	}
	return total, nil
}

// Columns of a schedstat file: the nanoseconds that a thread ran, and those that it was ready to run without a CPU.
const (
	ran = iota
	waited
)

// schedstat returns the sum of a column of proc/PID/task/TID/schedstat for the threads of a process, since each thread
// began. ok is false if the kernel does not report it (CONFIG_SCHED_INFO).
func schedstat(files fs.FS, pid, column int) (sum time.Duration, ok bool, err error) {
	tasks := fmt.Sprintf("proc/%d/task", pid)
	threads, err := fs.ReadDir(files, tasks)
	if err != nil {
		return 0, false, fmt.Errorf("threads: %w", err)
	}
	for _, thread := range threads {
		text, err := fs.ReadFile(files, tasks+"/"+thread.Name()+"/schedstat")
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread ended, or there is no such file
		}
		if err != nil {
			return 0, false, fmt.Errorf("schedstat: %w", err)
		}
		var columns [3]int64
		if _, err := fmt.Sscan(string(text), &columns[0], &columns[1], &columns[2]); err != nil {
			return 0, false, fmt.Errorf("schedstat %q: %w", text, err)
		}
		sum, ok = sum+time.Duration(columns[column]), true
	}
	return sum, ok, nil
}

// Switches returns how often the threads of a process gave up a CPU or lost it. The count of an ended thread is lost.
func Switches(pid int) (int64, error) {
	n, err := switches(os.DirFS("/"), pid)
	if err != nil {
		return 0, fmt.Errorf("switches of %d: %w", pid, err)
	}
	return n, nil
}

func switches(files fs.FS, pid int) (sum int64, err error) {
	tasks := fmt.Sprintf("proc/%d/task", pid)
	threads, err := fs.ReadDir(files, tasks)
	if err != nil {
		return 0, fmt.Errorf("threads: %w", err)
	}
	for _, thread := range threads {
		for _, kind := range []string{"voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"} {
			n, err := number(files, tasks+"/"+thread.Name()+"/status", kind)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, err
			}
			sum += max(n, 0)
		}
	}
	return sum, nil
}

// PeakRSS returns VmHWM of /proc/PID/status in MiB.
func PeakRSS(pid int) (float64, error) {
	kib, err := number(os.DirFS("/"), fmt.Sprintf("proc/%d/status", pid), "VmHWM:")
	if err == nil && kib < 0 {
		err = fmt.Errorf("no VmHWM: %w", ErrChild)
	}
	if err != nil {
		return 0, fmt.Errorf("memory of %d: %w", pid, err)
	}
	return float64(kib) / 1024, nil
}

// number returns the number after a name at the beginning of a line, or -1 if the kernel has no such line. The first
// line does not count.
func number(files fs.FS, file, name string) (int64, error) {
	data, err := fs.ReadFile(files, file)
	if err != nil {
		return 0, err //nolint:wrapcheck // the callers say what they want, and the error names the file
	}
	_, rest, found := strings.Cut(string(data), "\n"+name)
	if !found {
		return -1, nil
	}
	var n int64
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return 0, fmt.Errorf("%s of %s: %w", name, file, err)
	}
	return n, nil
}
