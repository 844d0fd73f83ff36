package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/proof/load"
)

// LocalityReport is the outcome of bench locality. Its JSON is a stable contract.
type LocalityReport struct {
	Machine Machine           `json:"machine"`
	Setup   LocalitySetup     `json:"setup"`
	Trials  []LocalityTrial   `json:"trials"`
	Limited []LocalityLimited `json:"limited"`
	// Windows are the requests of the victim before, during and after the passes under a limit, and Ratios compare
	// them.
	Windows []ArmSummary `json:"windows"`
	Ratios  []RatioLine  `json:"ratios"`
	// OfBare is the speed of the passes divided by that of bare loops with the same calls. MovingOfBare leaves out the
	// time in which they searched for pages, and CallsOfBare uses their calls alone. All are null with one trial.
	OfBare       *load.Ratio `json:"ofBare"`
	MovingOfBare *load.Ratio `json:"movingOfBare"`
	CallsOfBare  *load.Ratio `json:"callsOfBare"`
	// Starts has the same for each start alone.
	Starts []LocalityStart `json:"starts"`
	Goals  []Goal          `json:"goals"`
	Notes  []string        `json:"notes"`
}

// LocalitySetup describes the run.
type LocalitySetup struct {
	MiB            int     `json:"mib,omitempty"`
	Local          int     `json:"localNode"`
	Remote         int     `json:"remoteNode"`
	LimitedSeconds float64 `json:"limitedSeconds,omitempty"`
	WindowSeconds  float64 `json:"windowSeconds,omitempty"`
	Repetitions    int     `json:"repetitions"`
	// Virtual is true on a virtual machine, whose nodes may be emulated.
	Virtual bool `json:"virtual"`
	Quick   bool `json:"quick"`
}

// LocalityTrial is two passes and two bare loops over one process.
type LocalityTrial struct {
	Start string `json:"start"`
	// StartPercent was local before the last pass, and EndPercent after the worse pass.
	StartPercent float64 `json:"startPercent"`
	EndPercent   float64 `json:"endPercent"`
	// PassSeconds is the time of the passes, with pauses. LookSeconds is the part in which they searched for pages, and
	// CallSeconds the part in their calls.
	PassBytes   int64   `json:"passBytes"`
	PassSeconds float64 `json:"passSeconds"`
	LookSeconds float64 `json:"lookSeconds"`
	CallSeconds float64 `json:"callSeconds"`
	BareBytes   int64   `json:"bareBytes"`
	BareSeconds float64 `json:"bareSeconds"`
	// Left counts base pages by reason.
	Left          map[locality.Left]int64 `json:"left"`
	HugeKiBBefore int64                   `json:"hugeKiBBefore"`
	HugeKiBAfter  int64                   `json:"hugeKiBAfter"`
	// Splits is -1 if the kernel does not count splits.
	Splits int64 `json:"hugePagesSplit"`
}

// LocalityStart is the speed of the passes from one start, divided by that of bare loops. The ratios are null with one
// trial.
type LocalityStart struct {
	Start        string      `json:"start"`
	OfBare       *load.Ratio `json:"ofBare"`
	MovingOfBare *load.Ratio `json:"movingOfBare"`
}

// LocalityLimited is one pass under a limit, beside requests of the process and a hog.
type LocalityLimited struct {
	LimitMiBps        float64 `json:"limitMiBps"`
	MiBps             float64 `json:"mibps"`
	Seconds           float64 `json:"seconds"`
	Calls             int     `json:"calls"`
	LongestCallMillis float64 `json:"longestCallMillis"`
	Pauses            int     `json:"pauses"`
	// The longest write to one page, and the median and the longest duration of bare calls for one kernel batch.
	StallBeforeMillis  float64 `json:"stallBeforeMillis"`
	StallMillis        float64 `json:"stallMillis"`
	StallAfterMillis   float64 `json:"stallAfterMillis"`
	BatchMillis        float64 `json:"bareBatchMillis"`
	LongestBatchMillis float64 `json:"longestBareBatchMillis"`
	// HogMovedPercent is the percentage of the hog's memory that changed its node.
	HogMovedPercent float64 `json:"hogMovedPercent"`
}

// The figures to reach.
const (
	goalLocal     = 99.9
	goalOfBare    = 0.95
	goalRate      = 0.05
	leastRateTime = 9.0 // seconds, of a pass planned for ten
	goalStall     = 2.0
	goalVictim    = 1.5
)

func (r *LocalityReport) summarize(windows []Repetition) {
	for _, name := range []string{Before, During, After} {
		r.Windows = append(r.Windows, Summarize(name, windows))
	}
	for _, name := range []string{During, After} {
		for _, q := range interferenceQuantiles() {
			r.Ratios = append(r.Ratios, compare(windows, name, Before, q, 0))
		}
	}
	r.OfBare, r.MovingOfBare, r.CallsOfBare = speeds(r.Trials)
	r.Starts = nil
	for _, t := range r.Trials {
		if slices.ContainsFunc(r.Starts, func(s LocalityStart) bool { return s.Start == t.Start }) {
			continue
		}
		one := LocalityStart{Start: t.Start}
		one.OfBare, one.MovingOfBare, _ = speeds(slices.DeleteFunc(slices.Clone(r.Trials), func(o LocalityTrial) bool { return o.Start != t.Start }))
		r.Starts = append(r.Starts, one)
	}
	r.Goals = judgeLocality(r)
	r.Notes = r.Setup.notes()
}

// speeds compares the passes of trials with their bare loops: as a whole, without the search for pages, and the calls
// alone. A ratio is nil with one trial.
func speeds(trials []LocalityTrial) (whole, moving, calls *load.Ratio) {
	var pass, known, called, bare []load.Share
	for _, t := range trials {
		pass = append(pass, load.Share{Part: float64(t.PassBytes), Whole: t.PassSeconds})
		known = append(known, load.Share{Part: float64(t.PassBytes), Whole: t.PassSeconds - t.LookSeconds})
		called = append(called, load.Share{Part: float64(t.PassBytes), Whole: t.CallSeconds})
		bare = append(bare, load.Share{Part: float64(t.BareBytes), Whole: t.BareSeconds})
	}
	for ratio, shares := range map[**load.Ratio][]load.Share{&whole: pass, &moving: known, &calls: called} {
		if of, ok := load.PairedShares(shares, bare); ok {
			*ratio = &of
		}
	}
	return whole, moving, calls
}

// notes returns remarks on what the figures are worth.
func (s LocalitySetup) notes() []string {
	notes := []string{"the other node's pages were put there by the kernel's first touch and by move_pages, not by memory pressure"}
	if s.Virtual {
		notes = append(notes, "a virtual machine: where its nodes are emulated the mechanism is verified, the benefit is not measured")
	} else {
		notes = append(notes, "this is what moving costs; what it gains is measured by --redis")
	}
	if s.Quick {
		notes = append(notes, "quick: shorter passes than the goals ask for; run without --quick for verdicts")
	}
	return notes
}

// judgeLocality compares a report with the figures to reach.
func judgeLocality(r *LocalityReport) []Goal {
	least, left := 100.0, int64(0)
	huge, splits, differ := int64(0), int64(0), false
	for _, t := range r.Trials {
		least = min(least, t.EndPercent)
		for _, n := range t.Left {
			left += n
		}
		huge, splits = huge+t.HugeKiBBefore, splits+t.Splits
		differ = differ || t.HugeKiBAfter != t.HugeKiBBefore
	}
	goals := []Goal{
		{"after one pass >= 99.9 % of the pages are local", fmt.Sprintf("%.2f %% at least, %d pages left with a reason", least, left), VerdictOf(least >= goalLocal)},
		bareGoal("once it knows its pages a pass is >= 0.95 as fast as bare calls with the same lists", r.MovingOfBare),
		bareGoal("as a whole a pass over memory that is all remote is >= 0.95 as fast as bare calls", r.from(start{}).OfBare),
		{"as many huge pages as before, none split", fmt.Sprintf("%d MiB of them, %d split", huge>>10, splits), VerdictOf(!differ && splits == 0)},
	}
	if huge <= 0 || splits < 0 && !differ { // None, or unknown whether the kernel split and made them again.
		goals[3].Verdict = Open
	}
	for _, t := range r.Limited {
		goals = append(goals, t.judge()...)
	}
	return append(goals, r.victimGoal())
}

// from returns the ratios of a start, none if the report has no such start.
func (r *LocalityReport) from(s start) LocalityStart {
	for _, one := range r.Starts {
		if one.Start == s.String() {
			return one
		}
	}
	return LocalityStart{}
}

func bareGoal(goal string, ofBare *load.Ratio) Goal {
	g := Goal{goal, "too few trials", Open}
	if ofBare != nil {
		g.Measured = text(ofBare)
		if low, high := ofBare.Low >= goalOfBare, ofBare.High >= goalOfBare; low == high {
			g.Verdict = VerdictOf(low)
		}
	}
	return g
}

// judge compares one pass under a limit with the figures to reach.
func (t LocalityLimited) judge() []Goal {
	rate := Goal{"limit kept within 5 % over 10 s", fmt.Sprintf("%.2f of %.2f MiB/s over %.1f s", t.MiBps, t.LimitMiBps, t.Seconds), Open}
	if t.Seconds >= leastRateTime {
		rate.Verdict = VerdictOf(t.MiBps >= t.LimitMiBps*(1-goalRate) && t.MiBps <= t.LimitMiBps*(1+goalRate))
	}
	stall := Goal{
		"longest stall during the pass <= 2 bare calls of 512 pages, by the longest of them",
		fmt.Sprintf("%.2f ms (before: %.2f, after: %.2f), longest call %.2f ms (median: %.2f)",
			t.StallMillis, t.StallBeforeMillis, t.StallAfterMillis, t.LongestBatchMillis, t.BatchMillis), Open,
	}
	if most := goalStall * t.LongestBatchMillis; most > 0 && (t.StallBeforeMillis <= most || t.StallMillis <= most) {
		stall.Verdict = VerdictOf(t.StallMillis <= most)
	}
	hog := Goal{"no page of the hog changes its node", fmt.Sprintf("%.3f %%", t.HogMovedPercent), VerdictOf(t.HogMovedPercent == 0)}
	return []Goal{rate, stall, hog}
}

func (r *LocalityReport) victimGoal() Goal {
	goal := Goal{"p99 of the requests during a pass <= 1.5 of before, on real nodes", "too few requests", Open}
	if ratio := find(r.Ratios, During, Before, "p99", "all").Ratio; ratio != nil {
		goal.Measured = text(ratio)
		if !r.Setup.Virtual {
			goal.Verdict = VerdictOf(ratio.High <= goalVictim)
		}
	}
	return goal
}

// WriteLocalityTable prints a report for people.
func WriteLocalityTable(w io.Writer, r *LocalityReport) error {
	p := NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	p.Line("load: %d MiB, from node %d to node %d; %d repetitions", r.Setup.MiB, r.Setup.Remote, r.Setup.Local, r.Setup.Repetitions)
	p.Line("")
	var rows [][]string
	for _, t := range r.Trials {
		rows = append(rows, []string{
			t.Start, fmt.Sprintf("%.2f", t.StartPercent), fmt.Sprintf("%.2f", t.EndPercent), mibps(t.PassBytes, t.PassSeconds),
			mibps(t.PassBytes, t.CallSeconds), mibps(t.BareBytes, t.BareSeconds), leftText(t.Left), fmt.Sprint(t.HugeKiBAfter >> 10),
		})
	}
	p.Table([]string{"START", "LOCAL %", "THEN", "PASS MIB/S", "ITS CALLS", "BARE LOOP", "LEFT", "HUGE MIB"}, rows)
	p.Line("")
	rows = nil
	for _, a := range r.Windows {
		rows = append(rows, append([]string{a.Name}, a.cells()...))
	}
	p.Table([]string{"REQUESTS", "N", "P50 MS", "P95 MS", "P99 MS", "P99.9 MS"}, rows)
	p.Line("")
	p.Table([]string{"RATIO", "OF", "TO", "WINDOW", "ESTIMATE", "95 %"}, ratioRows(r.Ratios))
	p.Line("")
	if r.OfBare != nil && r.CallsOfBare != nil {
		p.Line("passes over bare calls, with the time to find the pages: %s; their calls alone: %s", text(r.OfBare), text(r.CallsOfBare))
	}
	for _, s := range r.Starts {
		if s.OfBare != nil && s.MovingOfBare != nil {
			p.Line("from %s: %s; once the pages are known: %s", s.Start, text(s.OfBare), text(s.MovingOfBare))
		}
	}
	p.Goals(r.Goals, r.Notes...)
	return p.Err()
}

func mibps(bytes int64, seconds float64) string {
	if seconds <= 0 {
		return NotAvailable
	}
	return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)/seconds)
}

// leftText lists the pages that passes left.
func leftText(left map[locality.Left]int64) string {
	if len(left) == 0 {
		return "0"
	}
	var all []string
	for _, why := range slices.Sorted(maps.Keys(left)) {
		all = append(all, fmt.Sprintf("%s %d", why, left[why]))
	}
	return strings.Join(all, " ")
}
