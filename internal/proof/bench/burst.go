package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// BurstOptions configures bench burst.
type BurstOptions struct {
	LoadOptions

	Limit unit.CPUs
	// Neighbours is the number of servers beside the measured server, each with a quarter of its limit and of its load.
	Neighbours int
	// Peer is another agent that runs as a separate arm.
	Peer PeerOptions
	// Abuse configures the abuser scenario; its zero value runs none.
	Abuse AbuseOptions
	// Arms are the names of the arms, Unlimited among them; empty means ArmNames. The table has the order of
	// AllArmNames.
	Arms []string
	// ByNoise replaces Repetitions by three, and as many more as the noise of these asks for. It needs Unlimited2.
	ByNoise bool
	// Run runs one arm of one repetition elsewhere than in a group of this program; nil means Arm.Run.
	Run func(context.Context, Arm) (Outcome, error)
	// abuse runs the abusers; nil means runAbuse.
	abuse func(context.Context, Place, AbuseOptions, func(string)) ([]Abuse, error)
}

const (
	// settle is the pause before an arm is measured, in which a group's quota refills and the machine becomes quiet.
	settle = 300 * time.Millisecond
)

// RunBurst measures all arms and returns the report. Everything it made is gone when it returns, also when ctx ends,
// which is an error. An error that matches ErrNotSpent or ErrNotRaised comes with a report if only abusers have no result.
func RunBurst(ctx context.Context, o BurstOptions) (*Report, error) {
	if err := o.prepare(); err != nil {
		return nil, err
	}
	o.Arms = o.arms()
	r := &Report{Machine: o.Machine, Setup: o.setup()}
	repetitions, err := o.repeat(ctx, r)
	if err != nil {
		return nil, err
	}
	r.Repetitions = len(repetitions)
	for _, name := range o.Arms {
		r.Arms = append(r.Arms, Summarize(name, repetitions))
	}
	r.Ratios = Compare(repetitions, o.Arms)
	r.NeighbourRatios = compareNeighbours(repetitions, o.Arms)
	r.Abusers, err = o.abuse(ctx, o.Place, o.Abuse, o.Progress)
	if err != nil && !isIdle(err) {
		return nil, err
	}
	r.Goals = judge(r)
	r.Notes = append(r.Notes, o.notes(r)...)
	return r, errors.Join(err, WriteSummary(o.Out, r))
}

// prepare sets the defaults and makes the directory.
func (o *BurstOptions) prepare() error {
	if o.Run == nil {
		o.Run = func(ctx context.Context, a Arm) (Outcome, error) { return a.Run(ctx) }
	}
	if o.abuse == nil {
		o.abuse = runAbuse
	}
	return o.open("burst")
}

func (o BurstOptions) setup() Setup {
	return Setup{
		LimitCPUs: float64(o.Limit), BatchesPerSec: o.Pattern.Rate, Batch: o.Pattern.Batch, Regular: o.Pattern.Regular,
		WorkMicros: o.Work.Microseconds(), Neighbours: o.Neighbours, ArmSeconds: o.Duration.Seconds(), Seed: o.Pattern.Seed, Quick: o.Quick,
	}
}

// repeat measures all repetitions.
func (o BurstOptions) repeat(ctx context.Context, r *Report) ([]Repetition, error) {
	if o.ByNoise {
		o.Repetitions = noiseRepetitions
	}
	repetitions := make([]Repetition, 0, o.Repetitions)
	for i := 0; i < o.Repetitions; i++ {
		repetition, err := o.measure(ctx, i)
		if err != nil {
			return nil, err
		}
		if ratio, known := noise(repetition); known {
			r.Noise = append(r.Noise, ratio)
		}
		repetitions = append(repetitions, repetition)
		if !o.ByNoise || i+1 < o.Repetitions {
			continue
		}
		measured := medianOf(repetitions, Unlimited2, Unlimited, 0.99)
		if o.Repetitions = repetitionsByNoise(measured, i+1); o.Repetitions == i+1 {
			r.Notes = append(r.Notes, byNoiseNote(measured, i+1))
		}
	}
	return repetitions, nil
}

// noise returns the p99 of the second unlimited arm divided by that of the first.
func noise(r Repetition) (ratio float64, known bool) {
	return plainRatio(load.Pair{Arm: r[Unlimited2].Samples, Reference: r[Unlimited].Samples}, 0.99)
}

// measure runs all arms once.
func (o BurstOptions) measure(ctx context.Context, repetition int) (Repetition, error) {
	arm, err := o.arm(repetition)
	if err != nil {
		return nil, err
	}
	return o.rotate(repetition, o.Arms, func(name string) (Outcome, error) {
		arm.Name = name
		return o.Run(ctx, arm)
	})
}

// arm returns an arm of a repetition, without a name.
func (o BurstOptions) arm(repetition int) (Arm, error) {
	arrivals, err := o.arrivals(repetition)
	if err != nil {
		return Arm{}, err
	}
	beside, err := o.neighbourArrivals(o.pattern(repetition))
	return Arm{Place: o.Place, Limit: o.Limit, Work: o.Work, Arrivals: arrivals, Neighbours: beside, Peer: o.Peer}, err
}

// Arm is one arm of one repetition.
type Arm struct {
	Place Place
	// Name is one of ArmNames, or Peer.
	Name  string
	Limit unit.CPUs
	// Work is the CPU time of one request; Arrivals are the intended times.
	Work     time.Duration
	Arrivals []time.Duration
	// Neighbours are the arrivals of each neighbour.
	Neighbours [][]time.Duration
	// Peer is the agent of the arm Peer.
	Peer PeerOptions
}

// sizedByGo reports whether Go's runtime chooses the GOMAXPROCS of an arm's server.
func sizedByGo(arm string) bool { return slices.Contains(RequestedArmNames(), arm) }

// Unlimited reports whether the arm's server has no limit.
func (a Arm) Unlimited() bool { return a.Name == Unlimited || a.Name == Unlimited2 }

// Run makes a stage for the arm, sends it the arrivals and removes it.
func (a Arm) Run(ctx context.Context) (outcome Outcome, err error) {
	quota := a.Limit.Quota(Period)
	if a.Unlimited() {
		quota = unit.NoLimit
	}
	var args []string
	if sizedByGo(a.Name) {
		args = []string{"--moves", "--cpus", "0"}
	}
	stage, err := OpenServer(ctx, a.Place, slug(a.Name), quota, args...)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	beside, err := a.openNeighbours(ctx)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, beside.close()) }()
	moving, err := a.control(ctx, stage, beside)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, moving.Stop()) }()
	if err := load.Pause(ctx, settle); err != nil {
		return Outcome{}, err
	}
	before, err := moving.Writes()
	if err != nil {
		return Outcome{}, err
	}
	if outcome, err = beside.load(ctx, a, stage); err != nil {
		return Outcome{}, err
	}
	outcome.Writes, err = moving.Writes()
	outcome.WritesUnderLoad = outcome.Writes - before
	if err == nil && sizedByGo(a.Name) {
		outcome.Procs, err = load.ReadProcs(ctx, stage.Address)
	}
	return outcome, err
}

// slug turns an arm's name into a name for a file or a group.
func slug(name string) string { return strings.ReplaceAll(name, " ", "-") }

// writeSamples writes the raw samples of one arm of one repetition into the directory out, unless out is empty.
func writeSamples(out string, attempt int, arm string, samples []load.Sample) (err error) {
	if out == "" {
		return nil
	}
	file, err := os.Create(filepath.Join(out, fmt.Sprintf("run%02d-%s.csv", attempt+1, slug(arm))))
	if err != nil {
		return fmt.Errorf("raw samples: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := load.WriteCSV(file, samples); err != nil {
		return fmt.Errorf("raw samples: %w", err)
	}
	return nil
}

func (o BurstOptions) notes(r *Report) []string {
	var notes []string
	missing := map[string]bool{}
	for _, a := range r.Arms {
		for name, v := range map[string]*float64{"p99": a.P99, "p99.9": a.P999} {
			missing[name] = missing[name] || v == nil
		}
	}
	for _, name := range []string{"p99", "p99.9"} {
		if missing[name] {
			notes = append(notes, name+" is n/a: fewer than ten requests of an arm lie above it")
		}
	}
	if len(o.Peer.Command) > 0 {
		notes = append(notes, fmt.Sprintf("peer: %s, with %s to settle; its writes are not counted", strings.Join(o.Peer.Command, " "), o.Peer.Settle))
	}
	notes = append(notes, goNotes(r)...)
	if missing := o.Abuse.missing(r.Abusers); len(missing) > 0 {
		notes = append(notes, "these abusers have no result, see the error: "+strings.Join(missing, ", "))
	}
	if o.Quick {
		notes = append(notes, "quick: shorter arms than the goals ask for; run without --quick for verdicts")
	}
	for _, a := range r.Arms {
		notes = append(notes, a.notes(a.Name)...)
		for i, n := range a.Neighbours {
			notes = append(notes, n.notes(fmt.Sprintf("neighbour %d of %s", i+1, a.Name))...)
		}
	}
	return notes
}

// goNotes returns a note for each arm in which Go sized the server.
func goNotes(r *Report) []string {
	var notes []string
	for _, a := range r.Arms {
		if g := a.GoRuntime; g != nil {
			notes = append(notes, fmt.Sprintf("%s: p99 %s ms; GOMAXPROCS %d at the end, %.1f changes an hour; %d threads",
				a.Name, Millis(a.P99), g.MaxProcs, g.ChangesPerHour, g.Threads))
		}
	}
	return notes
}
