package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// mostUnseen is the part of the waits that may be missing without a note.
const mostUnseen = 1.0 / 100

// mostNoise is how far the p95 of the two arms alone may differ.
const mostNoise = 0.10

// InterferenceReport is the outcome of bench interference. Its JSON is a stable contract: a quantile is null if the
// number of samples does not support it.
type InterferenceReport struct {
	Machine     Machine              `json:"machine"`
	Setup       InterferenceSetup    `json:"setup"`
	Boundary    InterferenceBoundary `json:"boundary"`
	Repetitions int                  `json:"repetitions"`
	// Noise is, for each repetition, the p95 of the second arm alone divided by that of the first.
	Noise  []float64         `json:"noise"`
	Arms   []InterferenceArm `json:"arms"`
	Ratios []RatioLine       `json:"ratios"`
	// CoResidency says how the time that hogs and server shared a core is measured, or why it is unknown.
	CoResidency string `json:"coResidency"`
	// Waiting says how it is measured behind whom the server's threads waited, or why that is unknown. WaitingThreads
	// does not depend on it.
	Waiting string   `json:"waiting"`
	Goals   []Goal   `json:"goals"`
	Notes   []string `json:"notes,omitempty"`
}

// InterferenceSetup describes the run.
type InterferenceSetup struct {
	RequestsPerSec float64 `json:"requestsPerSecond"`
	WorkMicros     int64   `json:"workMicros"`
	// Hogs is how many threads burn beside the server.
	Hogs       int     `json:"hogs"`
	ArmSeconds float64 `json:"armSeconds"`
	Seed       uint64  `json:"seed"`
	Quick      bool    `json:"quick"`
}

// InterferenceBoundary is where the law put the boundary between the cores.
type InterferenceBoundary struct {
	Online  cpuset.Set `json:"online"`
	Offline cpuset.Set `json:"offline"`
	// Reserve is the CPUs that the hogs leave free in the arm with a pull reserve.
	Reserve cpuset.Set `json:"reserve"`
	UseCPUs float64    `json:"useCPUs"`
	Need    int        `json:"needCores"`
	Low     int        `json:"lowCores"`
	Target  int        `json:"targetCores"`
	Reason  string     `json:"reason"`
}

// InterferenceArm is one arm over all repetitions.
type InterferenceArm struct {
	Name string `json:"name"`
	Served

	// HogCPUs is the use of the hogs; IdleShare is HogCPUs divided by the idle CPUs while the server is alone. Both are
	// null without hogs.
	HogCPUs   *float64 `json:"hogCPUs"`
	IdleShare *float64 `json:"idleShare"`
	// StealCPUs is the mean number of CPUs that the hypervisor took.
	StealCPUs float64 `json:"stealCPUs"`
	// Together is the part of the server's running time in which a hog ran on the same core. WaitingThreads is the mean
	// number of server threads that were ready to run without a CPU, by their schedstat. Both are null if unknown.
	Together       *float64 `json:"together"`
	WaitingThreads *float64 `json:"waitingThreads"`
	// BehindOffline, BehindOnline, BehindOthers and BehindNobody divide the waiting threads by what ran on their CPU: a
	// hog, another thread of the server, anything else, or nothing yet. All are null if unknown, BehindOffline also
	// without hogs. Their sum is the waiting by the kernel's events.
	BehindOffline *float64 `json:"behindOffline"`
	BehindOnline  *float64 `json:"behindOnline"`
	BehindOthers  *float64 `json:"behindOthers"`
	BehindNobody  *float64 `json:"behindNobody"`
	// Waits is the number of waits in these figures. UnseenWaits is the number of waits that are missing there, because
	// the kernel recorded no begin or no end.
	Waits       int `json:"waits"`
	UnseenWaits int `json:"unseenWaits"`
	// LostEvents is the least number of the scheduler's events that were lost.
	LostEvents uint64 `json:"lostEvents"`
}

func (b boundary) report() InterferenceBoundary {
	f := b.Figures
	return InterferenceBoundary{
		Online: b.Online, Offline: b.Offline, Reserve: b.reserve, UseCPUs: float64(f.Use), Need: f.Need, Low: f.Low, Target: f.Target, Reason: string(b.Reason),
	}
}

func interferenceQuantiles() []float64 { return []float64{0.5, 0.95, 0.99, 0.999} }

func (r *InterferenceReport) summarize(all []repetitionWith[beside], names []string) {
	repetitions, noise := withNoise(all)
	r.Noise = noise
	for _, name := range names {
		r.Arms = append(r.Arms, summarizeArm(name, Summarize(name, repetitions), all))
	}
	for _, name := range names[1:] {
		for _, q := range interferenceQuantiles() {
			r.Ratios = append(r.Ratios, compare(repetitions, name, Alone, q, 0))
		}
	}
	if find(r.Ratios, OwnCores, Alone, "p50", "all").Arm != "" {
		for _, q := range interferenceQuantiles() {
			r.Ratios = append(r.Ratios, compare(repetitions, OwnCores, AloneOnCores, q, 0))
		}
	}
}

func summarizeArm(name string, s ArmSummary, all []repetitionWith[beside]) InterferenceArm {
	arm := InterferenceArm{Name: name, Served: s.Served}
	hogs, idle := 0.0, 0.0
	for _, one := range all {
		hogs += one.beside[name].Hogs / float64(len(all))
		idle += (one.beside[Alone].Idle + one.beside[AloneAgain].Idle) / 2 / float64(len(all))
		arm.StealCPUs += one.beside[name].Steal / float64(len(all))
		arm.LostEvents += one.beside[name].Lost
		if b := one.beside[name].Behind; b != nil {
			arm.Waits += b.Waits
			arm.UnseenWaits += b.Unseen
		}
	}
	if hogs > 0 && idle > 0 {
		share := hogs / idle
		arm.HogCPUs, arm.IdleShare = &hogs, &share
	}
	arm.Together = mean(all, func(one repetitionWith[beside]) *float64 { return one.beside[name].Together })
	arm.WaitingThreads = mean(all, func(one repetitionWith[beside]) *float64 { return one.beside[name].Waited })
	part := func(of func(behind) float64) *float64 {
		return mean(all, func(one repetitionWith[beside]) *float64 {
			if b := one.beside[name].Behind; b != nil {
				return new(of(*b))
			}
			return nil
		})
	}
	if hasHogs(name) {
		arm.BehindOffline = part(func(b behind) float64 { return b.Offline })
	}
	arm.BehindOnline = part(func(b behind) float64 { return b.Online })
	arm.BehindOthers = part(func(b behind) float64 { return b.Others })
	arm.BehindNobody = part(func(b behind) float64 { return b.Nobody })
	return arm
}

// mean returns nil if a repetition lacks the figure.
func mean(all []repetitionWith[beside], of func(repetitionWith[beside]) *float64) *float64 {
	sum := 0.0
	for _, one := range all {
		figure := of(one)
		if figure == nil {
			return nil
		}
		sum += *figure / float64(len(all))
	}
	return &sum
}

// The figures to reach, by the estimates of ratios. For the first ratio the upper end of its interval must also be
// below mostIdleP95.
const (
	goalControl  = 1.25
	goalIdleP95  = 1.01
	mostIdleP95  = 1.05
	goalIdleP99  = 1.10
	goalIdleTime = 0.90
	goalCoresP95 = 1.01
	goalCoresP99 = 1.05

	goalReserveP95  = 1.05
	goalReserveP99  = 1.15
	goalReserveTime = 0.85
	// reserveCPUs is the least number of CPUs for judging a reserve: on two CPUs a reserve is half of the machine.
	reserveCPUs = 16
)

// notResolvable precedes a figure if the machine does not show what isolation is worth.
const notResolvable = "not resolvable here: "

// judgeInterference compares a report with the figures to reach. It judges no latency if the control arm, hogs with
// default shares, is not slower by a quarter. It judges nothing if the two arms alone differ by more than a tenth.
func judgeInterference(r *InterferenceReport) []Goal {
	goal, quiet, resolves := controlGoal(r.Ratios, DefaultShares)
	goals := []Goal{goal}
	goals = append(goals,
		r.latencyGoal(resolves, latencyBound{IdleGroup, Alone, "p95", goalIdleP95, mostIdleP95}),
		r.latencyGoal(resolves, latencyBound{IdleGroup, Alone, "p99", goalIdleP99, 0}),
		r.idleTimeGoal(quiet, IdleGroup, goalIdleTime),
	)
	if r.arm(IdleReserve).Name != "" && r.Machine.CPUs >= reserveCPUs {
		goals = append(goals,
			r.latencyGoal(resolves, latencyBound{IdleReserve, Alone, "p95", goalReserveP95, 0}),
			r.latencyGoal(resolves, latencyBound{IdleReserve, Alone, "p99", goalReserveP99, 0}),
			r.idleTimeGoal(quiet, IdleReserve, goalReserveTime))
	}
	if r.arm(OwnCores).Name != "" {
		goals = append(goals,
			r.latencyGoal(resolves, latencyBound{OwnCores, AloneOnCores, "p95", goalCoresP95, 0}),
			r.latencyGoal(resolves, latencyBound{OwnCores, AloneOnCores, "p99", goalCoresP99, 0}))
	}
	return goals
}

// controlGoal says whether the machine is quiet, so that the server alone repeats, and whether it then resolves what
// work beside the server costs: the control arm, on the same CPUs as that work, has to be slower by a quarter.
func controlGoal(ratios []RatioLine, control string) (goal Goal, quiet, resolves bool) {
	goal = Goal{Goal: fmt.Sprintf("control: p95 with %s >= %.2f × alone, which repeats within 10 %%", control, goalControl), Measured: "too few requests", Verdict: Open}
	beside, again := find(ratios, control, Alone, "p95", "all").Ratio, find(ratios, AloneAgain, Alone, "p95", "all").Ratio
	if beside == nil || again == nil {
		return goal, false, false
	}
	goal.Measured = fmt.Sprintf("%s, alone again %.3f", text(beside), again.Estimate)
	quiet = again.Estimate <= 1+mostNoise && again.Estimate >= 1-mostNoise
	resolves = quiet && beside.Estimate >= goalControl
	if quiet {
		goal.Verdict = VerdictOf(resolves)
	}
	return goal, quiet, resolves
}

func text(r *load.Ratio) string {
	return fmt.Sprintf("%.3f (95 %% %.3f..%.3f)", r.Estimate, r.Low, r.High)
}

// latencyBound is how much slower than a reference an arm may be.
type latencyBound struct {
	arm, reference, quantile string
	// most bounds the estimate of the ratio, mostHigh the upper end of its interval; 0 bounds nothing.
	most, mostHigh float64
}

func (r *InterferenceReport) latencyGoal(resolves bool, b latencyBound) Goal {
	return b.goal(r.Ratios, r.arm(b.arm).Requests, resolves)
}

// goal judges a bound by the ratios of a report, whose arm had so many requests.
func (b latencyBound) goal(ratios []RatioLine, requests int, resolves bool) Goal {
	goal := Goal{Goal: fmt.Sprintf("%s, %s <= %.2f × %s", b.arm, b.quantile, b.most, b.reference), Measured: "too few requests", Verdict: Open}
	if b.mostHigh > 0 {
		goal.Goal += fmt.Sprintf(", upper end <= %.2f", b.mostHigh)
	}
	ratio := find(ratios, b.arm, b.reference, b.quantile, "all").Ratio
	switch {
	case ratio == nil:
		return goal
	case !resolves:
		goal.Measured = notResolvable + text(ratio)
		return goal
	case b.quantile == "p99" && requests < leastRequestsP99:
		goal.Measured = fmt.Sprintf("%s from %d requests, %d wanted", text(ratio), requests, leastRequestsP99)
		return goal
	}
	goal.Measured = text(ratio)
	goal.Verdict = VerdictOf(ratio.Estimate <= b.most && (b.mostHigh == 0 || ratio.High <= b.mostHigh))
	return goal
}

func (r *InterferenceReport) idleTimeGoal(quiet bool, arm string, least float64) Goal {
	goal := Goal{
		Goal:     fmt.Sprintf("%s, hogs use >= %.0f %% of what is idle while the server is alone", arm, 100*least),
		Measured: "nothing is idle", Verdict: Open,
	}
	share := r.arm(arm).IdleShare
	switch {
	case share == nil:
	case !quiet:
		goal.Measured = fmt.Sprintf("%s%.1f %%", notResolvable, 100**share)
	default:
		goal.Measured, goal.Verdict = fmt.Sprintf("%.1f %%", 100**share), VerdictOf(*share >= least)
	}
	return goal
}

func (r *InterferenceReport) arm(name string) InterferenceArm {
	for _, a := range r.Arms {
		if a.Name == name {
			return a
		}
	}
	return InterferenceArm{}
}

func (r *InterferenceReport) note(o InterferenceOptions) {
	if r.arm(OwnCores).Name == "" {
		r.Notes = append(r.Notes, "no arm with cores: "+r.Boundary.Reason)
	}
	if noisy := unlike(r.Noise); noisy > 0 {
		r.Notes = append(r.Notes, noiseNote(noisy, len(r.Noise)))
	}
	for _, a := range r.Arms {
		r.Notes = append(r.Notes, a.notes(a.Name)...)
	}
	r.noteCoResidency()
	if o.Place.Parent != "" {
		r.Notes = append(r.Notes, fmt.Sprintf("the load is made outside of %s, and competes with all of it: idle ranks groups with one parent only", o.Place.Parent))
	}
	if o.Quick {
		r.Notes = append(r.Notes, "quick: shorter arms than the goals ask for; run without --quick for verdicts")
	}
}

// unlike counts the repetitions whose two arms alone differ by more than mostNoise.
func unlike(noise []float64) int {
	noisy := 0
	for _, n := range noise {
		if n > 1+mostNoise || n < 1-mostNoise {
			noisy++
		}
	}
	return noisy
}

func noiseNote(noisy, repetitions int) string {
	return fmt.Sprintf("in %d of %d repetitions the p95 of the two arms alone differ by more than 10 %%: a noisy machine", noisy, repetitions)
}

// noteCoResidency says what the figures of co-residency lack.
func (r *InterferenceReport) noteCoResidency() {
	for _, a := range r.Arms {
		if a.LostEvents > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: at least %d events of the scheduler were lost, so that its co-residency, and behind whom threads waited, are unknown", a.Name, a.LostEvents))
		}
		if float64(a.UnseenWaits) > mostUnseen*float64(a.Waits) {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: the kernel recorded no begin or no end of %d waits, which are missing beside %d others in what threads waited behind", a.Name, a.UnseenWaits, a.Waits))
		}
	}
	if strings.HasPrefix(r.Waiting, unknown) {
		total := "the server's threads waited as WAITING says, by /proc/PID/task/*/schedstat, which has the total only"
		if !slices.ContainsFunc(r.Arms, func(a InterferenceArm) bool { return a.WaitingThreads != nil }) {
			total = "how long the server's threads waited is unknown: the kernel has no /proc/PID/task/*/schedstat (CONFIG_SCHED_INFO)"
		}
		r.Notes = append(r.Notes, fmt.Sprintf("%s; behind whom: %s", total, r.Waiting))
	}
}

// WriteInterferenceTable prints a report for people.
func WriteInterferenceTable(w io.Writer, r *InterferenceReport) error {
	p := NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	p.Line("load: %g requests a second at random of %.2f ms CPU, %.0f s an arm, seed %d; %d hogs",
		r.Setup.RequestsPerSec, float64(r.Setup.WorkMicros)/1000, r.Setup.ArmSeconds, r.Setup.Seed, r.Setup.Hogs)
	if b := r.Boundary; !b.Offline.IsEmpty() {
		p.Line("boundary: online %s (use %.2f CPUs, need %d cores), offline %s (low %d, target %d)", b.Online, b.UseCPUs, b.Need, b.Offline, b.Low, b.Target)
	}
	if b := r.Boundary; !b.Reserve.IsEmpty() {
		p.Line("reserve: hogs leave %s free", b.Reserve)
	}
	p.Line("%d repetitions", r.Repetitions)
	p.Line("")
	rows := make([][]string, 0, len(r.Arms))
	for _, a := range r.Arms {
		hogs, share := NotAvailable, NotAvailable
		if a.HogCPUs != nil {
			hogs, share = fmt.Sprintf("%.3f", *a.HogCPUs), fmt.Sprintf("%.1f %%", 100**a.IdleShare)
		}
		row := append([]string{a.Name}, a.cells()...)
		rows = append(rows, append(row, hogs, share, fmt.Sprintf("%.3f", a.StealCPUs)))
	}
	p.Table([]string{"ARM", "N", "P50 MS", "P95 MS", "P99 MS", "P99.9 MS", "HOG CPUS", "OF IDLE TIME", "STEAL"}, rows)
	p.Line("")
	r.writeCoResidency(p)
	p.Line("")
	p.Table([]string{"RATIO", "OF", "TO", "WINDOW", "ESTIMATE", "95 %"}, ratioRows(r.Ratios))
	p.Line("")
	p.Goals(r.Goals, r.Notes...)
	return p.Err()
}

// writeCoResidency prints how server and hogs shared cores and CPUs. Waiting is in ms per second, of all threads
// together.
func (r *InterferenceReport) writeCoResidency(p *Printer) {
	p.Line("together on a core: %s", r.CoResidency)
	p.Line("waiting, in ms a second of all threads of the server: by their schedstat; behind whom: %s", r.Waiting)
	waits := func(threads *float64) string {
		if threads == nil {
			return NotAvailable
		}
		return fmt.Sprintf("%.1f", 1000**threads)
	}
	rows := make([][]string, 0, len(r.Arms))
	for _, a := range r.Arms {
		together := NotAvailable
		if a.Together != nil {
			together = fmt.Sprintf("%.2f %%", 100**a.Together)
		}
		rows = append(rows, []string{
			a.Name, together, waits(a.WaitingThreads), waits(a.BehindOffline), waits(a.BehindOnline), waits(a.BehindOthers), waits(a.BehindNobody),
		})
	}
	p.Table([]string{"ARM", "ON ONE CORE", "WAITING", "BEHIND OFFLINE", "BEHIND ONLINE", "BEHIND OTHERS", "CPU IDLE"}, rows)
}
