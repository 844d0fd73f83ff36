package bench

import (
	"fmt"
	"io"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// PinReport is the outcome of bench pin. Its JSON is a stable contract: a quantile is null if the number of samples
// does not support it.
type PinReport struct {
	Machine     Machine  `json:"machine"`
	Setup       PinSetup `json:"setup"`
	Repetitions int      `json:"repetitions"`
	// Noise is, for each repetition, the p95 of the second arm alone divided by that of the first.
	Noise  []float64   `json:"noise"`
	Arms   []PinArm    `json:"arms"`
	Ratios []RatioLine `json:"ratios"`
	Goals  []Goal      `json:"goals"`
	Notes  []string    `json:"notes,omitempty"`
}

// PinSetup describes the run.
type PinSetup struct {
	// CPUs is the server's limit.
	CPUs           int     `json:"cpus"`
	RequestsPerSec float64 `json:"requestsPerSecond"`
	WorkMicros     int64   `json:"workMicros"`
	// NeighbourThreads is how many threads of the neighbour burn.
	NeighbourThreads int     `json:"neighbourThreads"`
	ArmSeconds       float64 `json:"armSeconds"`
	Seed             uint64  `json:"seed"`
	Quick            bool    `json:"quick"`
}

// PinArm is one arm over all repetitions.
type PinArm struct {
	Name string `json:"name"`
	// Server and Neighbour are the CPUs of both in the last repetition.
	Server    cpuset.Set `json:"server"`
	Neighbour cpuset.Set `json:"neighbour"`
	Served

	// ServerCPUs and NeighbourCPUs are the mean numbers of CPUs in use; the second is null without a neighbour.
	ServerCPUs    float64  `json:"serverCPUs"`
	NeighbourCPUs *float64 `json:"neighbourCPUs"`
}

func (r *PinReport) summarize(all []repetitionWith[besidePinned]) {
	repetitions, noise := withNoise(all)
	r.Noise = noise
	for _, name := range PinArms() {
		s := Summarize(name, repetitions)
		arm := PinArm{Name: name, Served: s.Served, ServerCPUs: s.MeanCPUs}
		use := 0.0
		for _, one := range all {
			arm.Server, arm.Neighbour = one.beside[name].server, one.beside[name].neighbour
			use += one.beside[name].use / float64(len(all))
		}
		if !arm.Neighbour.IsEmpty() {
			arm.NeighbourCPUs = &use
		}
		r.Arms = append(r.Arms, arm)
	}
	for _, pair := range [][2]string{{SharedCPUs, Alone}, {Pinned, Alone}, {Pinned, PinnedAlone}, {PinnedAlone, Alone}, {AloneAgain, Alone}} {
		for _, q := range interferenceQuantiles() {
			r.Ratios = append(r.Ratios, compare(repetitions, pair[0], pair[1], q, 0))
		}
	}
}

// goalNeighbour is the least part of the CPUs left to it that a neighbour of a pinned server has to use.
const goalNeighbour = 0.95

// judgePin compares a report with the figures to reach: those of cores in bench interference. On the same CPUs the
// neighbour is the control.
func judgePin(r *PinReport) []Goal {
	control, quiet, resolves := controlGoal(r.Ratios, SharedCPUs)
	goals := []Goal{control}
	for _, bound := range []latencyBound{{Pinned, PinnedAlone, "p95", goalCoresP95, 0}, {Pinned, PinnedAlone, "p99", goalCoresP99, 0}} {
		goals = append(goals, bound.goal(r.Ratios, r.arm(Pinned).Requests, resolves))
	}
	goal := Goal{
		Goal:     fmt.Sprintf("%s, the neighbour uses >= %.0f %% of the CPUs that it has", Pinned, 100*goalNeighbour),
		Measured: "no neighbour", Verdict: Open,
	}
	if a := r.arm(Pinned); a.NeighbourCPUs != nil {
		share := *a.NeighbourCPUs / float64(a.Neighbour.Size())
		goal.Measured = fmt.Sprintf("%.1f %%", 100*share)
		if quiet {
			goal.Verdict = VerdictOf(share >= goalNeighbour)
		}
	}
	return append(goals, goal)
}

func (r *PinReport) arm(name string) PinArm {
	for _, a := range r.Arms {
		if a.Name == name {
			return a
		}
	}
	return PinArm{}
}

func (r *PinReport) note(o PinOptions) {
	if noisy := unlike(r.Noise); noisy > 0 {
		r.Notes = append(r.Notes, noiseNote(noisy, len(r.Noise)))
	}
	for _, a := range r.Arms {
		r.Notes = append(r.Notes, a.notes(a.Name)...)
	}
	r.Notes = append(r.Notes, fmt.Sprintf("pinned, the server has %d of %d CPUs, and this program makes the load on them too", o.CPUs, o.Machine.CPUs))
	if o.Quick {
		r.Notes = append(r.Notes, "quick: shorter arms than the goals ask for; run without --quick for verdicts")
	}
}

// WritePinTable prints a report for people.
func WritePinTable(w io.Writer, r *PinReport) error {
	p := NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	p.Line("load: limit %d CPUs; %g requests a second at random of %.2f ms CPU, %.0f s an arm, seed %d; a neighbour of %d threads",
		r.Setup.CPUs, r.Setup.RequestsPerSec, float64(r.Setup.WorkMicros)/1000, r.Setup.ArmSeconds, r.Setup.Seed, r.Setup.NeighbourThreads)
	p.Line("%d repetitions", r.Repetitions)
	p.Line("")
	rows := make([][]string, 0, len(r.Arms))
	for _, a := range r.Arms {
		neighbour, use := "-", NotAvailable
		if a.NeighbourCPUs != nil {
			neighbour, use = a.Neighbour.String(), fmt.Sprintf("%.3f", *a.NeighbourCPUs)
		}
		row := append([]string{a.Name, a.Server.String(), neighbour}, a.cells()...)
		rows = append(rows, append(row, fmt.Sprintf("%.3f", a.ServerCPUs), use))
	}
	p.Table([]string{"ARM", "CPUS OF THE SERVER", "OF THE NEIGHBOUR", "N", "P50 MS", "P95 MS", "P99 MS", "P99.9 MS", "SERVER USES", "NEIGHBOUR USES"}, rows)
	p.Line("")
	p.Table([]string{"RATIO", "OF", "TO", "WINDOW", "ESTIMATE", "95 %"}, ratioRows(r.Ratios))
	p.Line("")
	p.Goals(r.Goals, r.Notes...)
	return p.Err()
}
