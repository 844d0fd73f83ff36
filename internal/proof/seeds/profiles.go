package seeds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// The figures of profiles beside the latency.
const (
	CPUUse   = "CPU"
	Switches = "switches"
	Traffic  = "traffic between nodes"
)

const (
	// printedProfile is the built-in profile with the settings that the document prints, word for word.
	printedProfile = "hpc-sched"
	// hogPart is the part of the machine that the hogs get. With the requests, the machine is busy by 40 %, as the
	// document's was before its profile. Hogs without a quota would hide what CPUs are idle.
	hogPart = 0.25
	// profileShare divides the time of an arm: half of it has requests enough for a p99.
	profileShare = 2
	// profileSettle is the pause before and after an apply. The keeper of an earlier deadline ends in it, interrupts move,
	// and hogs begin.
	profileSettle = time.Second
	// profileMargin is added to an arm's time for the deadline of its profile: a starved machine takes longer, and a
	// deadline within the load spoils the run.
	profileMargin = 2 * time.Minute
)

// tuned measures a server beside hogs under host profiles.
type tuned struct {
	host

	tuning *bench.Tuning
	// files are the profiles by arm.
	files map[string]string
}

// profiles measures a server without a profile, with the document's settings, and with a built-in profile.
func (h host) profiles(ctx context.Context, m Measured) (_ Measured, err error) {
	if h.Profile != "" {
		return m, fmt.Errorf("%w room for another profile: %s", bench.ErrMissing, h.Profile)
	}
	if id := os.Geteuid(); id != 0 {
		return m, fmt.Errorf("%w root's right to apply a profile: this is user %d", bench.ErrMissing, id)
	}
	p := &tuned{host: h, files: map[string]string{}}
	if p.tuning, err = bench.OpenTuning(); err != nil {
		return m, fmt.Errorf("profiles: %w", err)
	}
	defer func() {
		left := p.tuning.Close()
		if left != nil && ctx.Err() != nil { // An interrupted command prints no error.
			h.Note(left.Error())
		}
		err = errors.Join(err, left)
	}()
	taken, err := p.write(ctx)
	if err != nil {
		return m, err
	}
	m.Notes, m.Ours = taken.notes(), p.load()
	h.Note(fmt.Sprintf("if this process is killed: %s undoes a profile at once, else its deadline does within %s", p.tuning.WayBack(), confirm(h.Duration)))
	runs, err := h.repeat(ctx, m.Experiment, p.run)
	if err != nil {
		return m, err
	}
	m.summarize(runs)
	return m, nil
}

// write writes the profiles: that of the document without what this kernel refuses.
func (p *tuned) write(ctx context.Context) (document planned, err error) {
	printed, _ := profile.BuiltIn(printedProfile)
	file, err := p.tuning.Write(printedProfile, string(printed))
	if err != nil {
		return document, fmt.Errorf("profiles: %w", err)
	}
	said, err := p.tuning.Plan(ctx, file)
	if err != nil {
		return document, fmt.Errorf("profiles: %w", err)
	}
	if document, err = readPlan(said); err != nil {
		return document, err
	}
	lowLatency, _ := profile.BuiltIn(LowLatency)
	for arm, text := range map[string]string{AsPrinted: document.profile(), LowLatency: string(lowLatency)} {
		if p.files[arm], err = p.tuning.Write(strings.ReplaceAll(arm, " ", "-"), text); err != nil {
			return document, fmt.Errorf("profiles: %w", err)
		}
	}
	return document, nil
}

// planned is the plan of the document's profile on this host.
type planned struct {
	Settings []struct{ Knob, Want, Support, Why string }
}

// readPlan reads what berth tune plan prints. Without a setting that can be set the error matches bench.ErrMissing.
func readPlan(said string) (p planned, err error) {
	if err := json.Unmarshal([]byte(said), &p); err != nil {
		return p, fmt.Errorf("profiles: berth tune plan: %w", err)
	}
	taken, refused := p.divided()
	if len(taken) == 0 {
		return p, fmt.Errorf("%w every setting of the document: %s", bench.ErrMissing, strings.Join(refused, "; "))
	}
	return p, nil
}

// divided returns the lines of the settings that this host takes, and the others with the reason.
func (p planned) divided() (taken, refused []string) {
	for _, s := range p.Settings {
		if s.Support == "settable" {
			taken = append(taken, s.Knob+": "+s.Want)
		} else {
			refused = append(refused, fmt.Sprintf("%s: %s: %s", s.Knob, s.Want, s.Why))
		}
	}
	return taken, refused
}

// profile is the document's profile as far as this host takes it.
func (p planned) profile() string {
	taken, _ := p.divided()
	return "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: as-printed}\nspec:\n  settings:\n    " + strings.Join(taken, "\n    ") + "\n"
}

func (p planned) notes() []string {
	taken, refused := p.divided()
	notes := []string{fmt.Sprintf("arm %s has %d of the document's %d settings: %s", AsPrinted, len(taken), len(p.Settings), strings.Join(taken, ", "))}
	for _, setting := range refused {
		notes = append(notes, "refused here: "+setting)
	}
	return notes
}

func (p *tuned) rate() float64 { return bench.DefaultVictimRate * float64(p.Machine.CPUs) }

func (p *tuned) load() string {
	return fmt.Sprintf("a load of Berth's own, as the document names none: %.0f requests of %d us a second in an open loop, beside %d hogs with a quota of %g CPUs; %g s an arm",
		p.rate(), bench.DefaultVictimWork.Microseconds(), p.Machine.CPUs, hogPart*float64(p.Machine.CPUs), (p.Duration / profileShare).Seconds())
}

// confirm is how long the profile of an arm stays if nothing undoes it before.
func confirm(arm time.Duration) time.Duration { return arm + profileMargin }

// run measures an arm, and undoes its profile.
func (p *tuned) run(ctx context.Context, a Arm) (v Values, err error) {
	if err := load.Pause(ctx, profileSettle); err != nil {
		return v, fmt.Errorf("profiles: %w", err)
	}
	file, is := p.files[a.Name]
	if !is {
		return p.measured(ctx, a)
	}
	defer func() { err = errors.Join(err, p.tuning.Undo()) }()
	if err := p.tuning.Apply(ctx, file, confirm(a.Duration)); err != nil {
		return v, fmt.Errorf("profiles: %w", err)
	}
	if v, err = p.measured(ctx, a); err != nil {
		return v, err
	}
	if _, err := p.tuning.Verify(ctx); err != nil {
		return v, fmt.Errorf("profiles: after the load: %w", err)
	}
	return v, nil
}

// measured measures a server beside hogs on the host as it is.
func (p *tuned) measured(ctx context.Context, a Arm) (v Values, err error) {
	arrivals, err := load.Pattern{Rate: p.rate(), Batch: 1, Seed: a.Seed}.Arrivals(a.Duration / profileShare)
	if err != nil {
		return v, fmt.Errorf("profiles: %w", err)
	}
	server, err := bench.OpenServer(ctx, p.Place, "tuned", unit.NoLimit)
	if err != nil {
		return v, fmt.Errorf("profiles: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	quota := unit.CPUs(hogPart * float64(p.Machine.CPUs)).Quota(bench.Period)
	hogs, err := bench.OpenStage(p.Place, "tuned-hogs", quota, "burn", "--threads", fmt.Sprint(p.Machine.CPUs))
	if err != nil {
		return v, fmt.Errorf("profiles: %w", err)
	}
	defer func() { err = errors.Join(err, hogs.Kill()) }()
	if err := load.Pause(ctx, profileSettle); err != nil {
		return v, fmt.Errorf("profiles: %w", err)
	}
	before := p.look()
	outcome, err := server.Load(ctx, bench.DefaultVictimWork, arrivals)
	if err != nil {
		return v, fmt.Errorf("profiles: %w", err)
	}
	v = p.look().since(before)
	v.Samples = outcome.Samples
	return v, nil
}

// look is the counters of the machine at a moment.
type look struct {
	at time.Duration
	// busy and all are CPU time, switches and pages are counts since boot.
	busy, all       unit.CPUTime
	switches, pages uint64
	// lacks says which figures these counters cannot have, and why.
	lacks map[string]string
}

// look reads the counters. A file that cannot be read is the reason of its figure.
func (h host) look() look {
	l := look{at: kernel.Monotonic(), lacks: map[string]string{}}
	var errs [3]error
	cpus, err := kernel.CPUsSpent(h.Root)
	for _, cpu := range cpus {
		l.busy += cpu.Busy
		l.all += cpu.Busy + cpu.Idle + cpu.Steal
	}
	errs[0] = err
	l.switches, errs[1] = kernel.SwitchesDone(h.Root)
	_, l.pages, errs[2] = kernel.PagesTaken(h.Root)
	if len(h.machine.Nodes) < 2 {
		errs[2] = fmt.Errorf("%w a second NUMA node", bench.ErrMissing)
	}
	for i, name := range []string{CPUUse, Switches, Traffic} {
		if errs[i] != nil {
			l.lacks[name] = errs[i].Error()
		}
	}
	return l
}

// since returns the figures of the time between two looks.
func (l look) since(before look) Values {
	v := Values{Of: map[string]float64{}, Lacks: map[string]string{}}
	seconds := (l.at - before.at).Seconds()
	values := map[string]float64{
		CPUUse:   100 * float64(l.busy-before.busy) / float64(max(l.all-before.all, 1)),
		Switches: float64(l.switches-before.switches) / seconds,
		Traffic:  float64(l.pages-before.pages) * float64(os.Getpagesize()) / 1e6 / seconds,
	}
	for _, name := range []string{CPUUse, Switches, Traffic} {
		if why := cmp.Or(before.lacks[name], l.lacks[name]); why != "" {
			v.Lacks[name] = why
			continue
		}
		v.Of[name] = values[name]
		v.Raw += fmt.Sprintf("%s %g\n", name, values[name])
	}
	return v
}
