package bench

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
)

// Report is the outcome of a benchmark. Its JSON is a stable contract: a quantile is null if the number of samples does
// not support it.
type Report struct {
	Machine     Machine `json:"machine"`
	Setup       Setup   `json:"setup"`
	Repetitions int     `json:"repetitions"`
	// Noise is, for each repetition, the p99 of the second unlimited arm divided by that of the first.
	Noise  []float64    `json:"noise"`
	Arms   []ArmSummary `json:"arms"`
	Ratios []RatioLine  `json:"ratios"`
	// NeighbourRatios compares each neighbour with Berth to the same neighbour with the limit only.
	NeighbourRatios []RatioLine `json:"neighbourRatios,omitempty"`
	Abusers         []Abuse     `json:"abusers,omitempty"`
	Goals           []Goal      `json:"goals"`
	Notes           []string    `json:"notes,omitempty"`
}

// Machine is the machine of a report.
type Machine struct {
	Kernel string `json:"kernel"`
	CPUs   int    `json:"cpus"`
	// Cgroups is the cgroup layout, empty where it does not matter.
	Cgroups string `json:"cgroups,omitempty"`
	Berth   string `json:"berth"`
	Arch    string `json:"arch"`
}

// Setup describes the run.
type Setup struct {
	LimitCPUs     float64 `json:"limitCPUs"`
	BatchesPerSec float64 `json:"batchesPerSecond"`
	Batch         int     `json:"batch"`
	Regular       bool    `json:"regular"`
	WorkMicros    int64   `json:"workMicros"`
	ArmSeconds    float64 `json:"armSeconds"`
	Seed          uint64  `json:"seed"`
	Neighbours    int     `json:"neighbours,omitempty"`
	Quick         bool    `json:"quick"`
}

// Served is what an arm served over all repetitions. A quantile is nil if the number of requests does not support it.
type Served struct {
	Requests int      `json:"requests"`
	Failed   int      `json:"failed"`
	P50      *float64 `json:"p50Millis"`
	P95      *float64 `json:"p95Millis"`
	P99      *float64 `json:"p99Millis"`
	P999     *float64 `json:"p999Millis"`
}

// ArmSummary is one arm over all counted repetitions.
type ArmSummary struct {
	Name string `json:"name"`
	Served

	// Throttled and Periods belong to the group itself; Above is the throttled periods of its ancestors.
	Throttled uint64 `json:"throttledPeriods"`
	Above     uint64 `json:"ancestorThrottledPeriods"`
	Periods   uint64 `json:"periods"`
	// MeanCPUs is the server's CPU-seconds per second under load.
	MeanCPUs float64 `json:"meanCPUs"`
	// Writes counts all quota and burst writes of the arm, WritesUnderLoad the writes during the load.
	Writes          int `json:"writes"`
	WritesUnderLoad int `json:"writesUnderLoad"`
	// GoRuntime is set for arms in which Go sizes the server.
	GoRuntime *GoRuntime `json:"goRuntime,omitempty"`
	// Neighbours has a summary of each server beside the measured one.
	Neighbours []NeighbourSummary `json:"neighbours,omitempty"`
}

// GoRuntime is how Go's runtime followed the quota: the largest GOMAXPROCS and number of threads at the end of a
// repetition, and how often GOMAXPROCS changed.
type GoRuntime struct {
	MaxProcs       int     `json:"gomaxprocs"`
	Threads        int     `json:"threads"`
	ChangesPerHour float64 `json:"changesPerHour"`
}

// RatioLine is one paired comparison. Ratio is null if the samples do not support the quantile.
type RatioLine struct {
	Arm       string      `json:"arm"`
	Reference string      `json:"reference"`
	Quantile  string      `json:"quantile"`
	Window    string      `json:"window"`
	Ratio     *load.Ratio `json:"ratio"`
	// Median is the median over stretches of paired arrivals, by which goals are judged; null with too few stretches.
	Median *load.Ratio `json:"pairedMedian"`
	// Stretches is their number.
	Stretches int `json:"stretches"`
	// PerRepetition are the plain ratios of each repetition that supports the quantile by itself.
	PerRepetition []float64 `json:"perRepetition,omitempty"`
}

// Abuse is one abuser under Berth, measured after its credit was gone.
type Abuse struct {
	Mode      string  `json:"mode"`
	LimitCPUs float64 `json:"limitCPUs"`
	// SpentSeconds is how long the credit lasted.
	SpentSeconds float64 `json:"spentSeconds"`
	Seconds      float64 `json:"seconds"`
	MeanCPUs     float64 `json:"meanCPUs"`
	// OverLimit is the mean divided by the limit.
	OverLimit float64 `json:"meanOverLimit"`
	// ExcessSeconds is the largest excess of the use over the limit, in CPU-seconds, in any window between two of the
	// Looks samples, with or without credit. CreditSeconds is the excess that the credit allows.
	ExcessSeconds float64 `json:"excessCPUSeconds"`
	CreditSeconds float64 `json:"creditCPUSeconds"`
	Looks         int     `json:"looks"`
	// UnseenSeconds is by how much more a window between other moments may exceed the limit: the limit over the longest
	// gap between two samples, at each end of the window.
	UnseenSeconds float64 `json:"unseenCPUSeconds"`
	// Alone is the same abuser under the limit without Berth; null for an abuser that burns only while its quota is raised.
	Alone *AbuseAlone `json:"limitAlone"`
	// Threshold is the agent's sharePoolThresholdPercent. Below 100, the node guard lets the quota fall too.
	Threshold int `json:"sharePoolThresholdPercent"`
	// Strikes counts how often the quota fell to the limit after a full credit was spent.
	Strikes int `json:"strikes"`
	// Bound is null where Unbounded says why it is not known.
	Bound     *AbuseBound `json:"bound"`
	Unbounded string      `json:"boundNotKnown,omitempty"`
	// Writes counts the writes of the whole scenario.
	Writes int `json:"writes"`
}

// AbuseAlone is an abuser under its limit alone: what the kernel's throttling lets through by itself. Its fields are
// those of Abuse.
type AbuseAlone struct {
	Seconds       float64 `json:"seconds"`
	MeanCPUs      float64 `json:"meanCPUs"`
	OverLimit     float64 `json:"meanOverLimit"`
	ExcessSeconds float64 `json:"excessCPUSeconds"`
	Looks         int     `json:"looks"`
}

// Verdict is the verdict on a goal.
type Verdict string

// The verdicts. A goal is open when the run was too short to decide.
const (
	Met    Verdict = "met"
	Missed Verdict = "missed"
	Open   Verdict = "n/a"
)

// Goal is one figure to reach and what was measured.
type Goal struct {
	Goal     string  `json:"goal"`
	Measured string  `json:"measured"`
	Verdict  Verdict `json:"verdict"`
}

// Repetition holds the raw outcome of one repetition.
type Repetition map[string]Outcome

// Outcome is one arm of one repetition.
type Outcome struct {
	Samples            []load.Sample
	Throttled, Periods uint64
	Above              uint64
	CPU                time.Duration
	Elapsed            time.Duration
	// Writes counts all writes of the arm, WritesUnderLoad the writes during the load.
	Writes, WritesUnderLoad int
	// Procs belongs to the server whose GOMAXPROCS Go chooses.
	Procs load.Procs
	// Beside is the outcome of each neighbour, without writes: Writes counts all groups of the arm.
	Beside []Outcome
}

// Summarize summarizes one arm over repetitions.
func Summarize(name string, repetitions []Repetition) ArmSummary {
	summary := ArmSummary{Name: name}
	var samples []load.Sample
	var cpu, elapsed time.Duration
	for _, repetition := range repetitions {
		o := repetition[name]
		samples = append(samples, o.Samples...)
		summary.Throttled += o.Throttled
		summary.Above += o.Above
		summary.Periods += o.Periods
		summary.Writes += o.Writes
		summary.WritesUnderLoad += o.WritesUnderLoad
		cpu += o.CPU
		elapsed += o.Elapsed
	}
	sorted := load.Sorted(samples)
	summary.Served = Served{
		Requests: len(samples), Failed: load.Failures(samples),
		P50: quantile(sorted, 0.5, time.Millisecond), P95: quantile(sorted, 0.95, time.Millisecond),
		P99: quantile(sorted, 0.99, time.Millisecond), P999: quantile(sorted, 0.999, time.Millisecond),
	}
	if elapsed > 0 {
		summary.MeanCPUs = cpu.Seconds() / elapsed.Seconds()
		if sizedByGo(name) {
			summary.GoRuntime = goRuntime(name, repetitions, elapsed)
		}
	}
	summary.Neighbours = summarizeNeighbours(name, repetitions)
	return summary
}

// cells returns the requests and the quantiles as cells of a table.
func (s Served) cells() []string {
	return []string{fmt.Sprint(s.Requests), fine(s.P50), fine(s.P95), fine(s.P99), fine(s.P999)}
}

// notes returns a note if requests of the arm failed.
func (s Served) notes(arm string) []string {
	if s.Failed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d requests of %s failed; they count with the time they were waited for", s.Failed, arm)}
}

// goRuntime summarizes how Go sized the servers of an arm; elapsed is their time under load.
func goRuntime(arm string, repetitions []Repetition, elapsed time.Duration) *GoRuntime {
	g := &GoRuntime{}
	for _, r := range repetitions {
		p := r[arm].Procs
		g.MaxProcs, g.Threads = max(g.MaxProcs, p.Max), max(g.Threads, p.Threads)
		g.ChangesPerHour += float64(p.Changes) / elapsed.Hours()
	}
	return g
}

// quantile returns a quantile in a unit, nil if it is not supported.
func quantile(sorted []time.Duration, q float64, unit time.Duration) *float64 {
	value, ok := load.Quantile(sorted, q)
	if !ok {
		return nil
	}
	return new(float64(value) / float64(unit))
}
