package drift

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	// every is the time between two comparisons.
	every = time.Minute
	// settle is the delay after a CPU came or went: its files come and go a moment later.
	settle = 2 * time.Second
)

// Options are the inputs of a Watch.
type Options struct {
	Root *hostfs.Root
	// Kernel asks the kernel below Root what its files do not show.
	Kernel tuner.Kernel
	// Boot is the id of this boot.
	Boot string
	// Groups are the control groups of units; if nil, nothing is set again. Now is the wall clock.
	Groups *cgroup.Host
	Now    func() time.Time
	// Keep starts the process that undoes a due record; nil starts nothing. The agent itself may not write all settings
	// of a profile.
	Keep func(tuner.Applied) error
	// Boottime is CLOCK_BOOTTIME; it is required.
	Boottime func() time.Duration
	// Spaces are the namespaces that the agent shares with the host. They count in a cluster only.
	Spaces Spaces
}

// Watch compares the host with the committed profile.
type Watch struct {
	opts Options
	// due has a pending comparison.
	due    chan request
	next   time.Duration
	online cpuset.Set
	// guarded is used by Run only.
	guarded guarded
	// followed are the settings whose new threads were reported. Only Run uses it.
	followed map[tuner.Setting]bool
	// idle is the last look at idle states. Only Run uses it.
	idle tuner.Idle

	mu     sync.Mutex // guards the findings of Run for the loop
	found  *Report
	events []capability.Event
	broken error
}

// request is a comparison that Decide asked for.
type request struct {
	stateDir string
	// inCluster is true for an agent that may only look: tune runs on the host.
	inCluster bool
}

// New returns the capability. It compares once Run is called.
func New(o Options) *Watch {
	return &Watch{opts: o, due: make(chan request, 1), followed: map[tuner.Setting]bool{}}
}

// Report is the result of the last comparison. Its JSON is a stable contract.
type Report struct {
	Profile string `json:"profile"`
	// Since is when the profile was applied.
	Since time.Time `json:"since"`
	// Ended is true if the profile is committed and not in force: a boot ended it, or an apply of it was undone, as
	// Undone tells.
	Ended  bool `json:"ended,omitempty"`
	Undone bool `json:"undone,omitempty"`
	// EndedIn is the id of the boot in which an event said that the profile is not in force, "" before that event.
	EndedIn string `json:"endedIn,omitempty"`
	// Drift are the settings that the host does not have.
	Drift []tune.Verified `json:"drift"`
	// Unseen are the settings that an agent in a cluster cannot compare. They are no drift.
	Unseen []Unseen `json:"unseen,omitempty"`
	// Waiting are the names of settings whose units do not run.
	Waiting []string `json:"waiting,omitempty"`
}

// Run makes the comparisons that Decide requests, until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-w.due:
			w.look(r)
		}
	}
}

// Decide implements capability.Decider: it requests a comparison when one is due, and reports the result of the last
// comparison. It returns no desired settings.
func (w *Watch) Decide(n *capability.Node) capability.Decision {
	if n.Online != w.online {
		w.online, w.next = n.Online, min(w.next, n.Now+settle)
	}
	if n.Now >= w.next {
		select {
		case w.due <- request{stateDir: n.Config.StateDir, inCluster: *n.Config.Cluster.Enabled}:
			w.next = n.Now + every
		default: // the last comparison is still under way
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := capability.Decision{Events: w.events}
	w.events = nil
	return d
}

// grace is how long after its deadline a record is left to its keeper.
const grace = 10 * time.Second

// guard starts a keeper for a record that is overdue: the first keeper was killed, or never started.
func (w *Watch) guard(dir string) error {
	record, is, err := tuner.Load(dir)
	if err != nil || !is || w.opts.Keep == nil || !record.Due(w.opts.Boot, w.opts.Boottime()-grace) {
		return err
	}
	seen := guarded{since: record.Since, phase: record.Phase, at: w.opts.Boottime()}
	if w.guarded.isOf(seen) {
		return nil
	}
	if _, held, err := journal.Holder(dir); held || err != nil { // The record of a running command looks due.
		return err
	}
	w.guarded = seen
	return w.opts.Keep(record)
}

// guarded is a record for which a keeper was started.
type guarded struct {
	since time.Time
	phase tuner.Phase
	at    time.Duration
}

// isOf reports whether the keeper for that record was started within the last hour. A keeper that found values of other
// programs has ended, and leaves them to the user.
func (g guarded) isOf(seen guarded) bool {
	return g.since.Equal(seen.since) && g.phase == seen.phase && seen.at-g.at < time.Hour
}

// look compares once, and again if it set something again. In a cluster it changes nothing.
func (w *Watch) look(r request) {
	dir := filepath.Join(r.stateDir, tuner.Subdir)
	var guarded error
	if !r.inCluster {
		guarded = w.guard(dir)
	}
	now, err := w.compare(dir, r.inCluster)
	var again tuner.Repeated
	if now.judged && !r.inCluster && w.lacks(now) {
		again, err = w.repeat(r.stateDir)
	}
	if !again.IsEmpty() {
		var broken error
		now, broken = w.compare(dir, false)
		err = errors.Join(err, broken)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = errors.Join(guarded, err)
	w.repeated(again)
	if !now.judged {
		return
	}
	if changed := changes(w.found, now.found); len(changed) > 0 {
		w.events = append(w.events, capability.Event{Reason: v1alpha1.EventHostDrift, Text: now.found.text(changed), Warning: true})
	}
	if w.ends(now.found) {
		w.events = append(w.events, capability.Event{Reason: v1alpha1.EventHostDrift, Text: now.found.over(), Warning: true})
	}
	w.found = now.found
}

// ends reports whether an event has to say that the committed profile is not in force: once a boot, after the time in
// which the unit berth-tune sets the profile again. The report gets the boot, which the checkpoint keeps for the next
// agent.
func (w *Watch) ends(found *Report) bool {
	if found == nil || !found.Ended {
		return false
	}
	if was := w.found; was != nil && was.Ended {
		found.EndedIn = was.EndedIn
	}
	if found.EndedIn == w.opts.Boot || w.opts.Boottime() < setAgain {
		return false
	}
	found.EndedIn = w.opts.Boot
	return true
}

// over says why a committed profile is not in force.
func (r *Report) over() string {
	why := "the last boot ended it, and no berth tune apply --committed (berth-tune.service) has set it again"
	if r.Undone {
		why = "an apply of it was undone: berth tune apply --committed"
	}
	return fmt.Sprintf("host profile %s: committed, and not in force: %s", r.Profile, why)
}

// repeat sets again what restarted units lost, and what new threads lack. It does nothing while a command works on a
// profile.
func (w *Watch) repeat(stateDir string) (again tuner.Repeated, err error) {
	u, err := tuner.Open(tuner.Host{
		Dir: filepath.Join(stateDir, tuner.Subdir), AgentDir: stateDir, Root: w.opts.Root, Kernel: w.opts.Kernel, Groups: w.opts.Groups,
		Boot: w.opts.Boot, Now: w.opts.Now, Boottime: kernel.Boottime,
	})
	if errors.Is(err, journal.ErrLocked) {
		return again, nil
	}
	if err != nil {
		return again, err
	}
	again, err = u.Repeat()
	return again, errors.Join(err, u.Close())
}

// repeated reports settings that were set again. It reports new threads of a setting once for each time that the agent
// runs: a program may start such threads all the time.
func (w *Watch) repeated(again tuner.Repeated) {
	fresh := slices.DeleteFunc(slices.Clone(again.Followed), func(s tuner.Setting) bool { return w.followed[s] })
	for _, s := range fresh {
		w.followed[s] = true
	}
	for _, one := range []struct {
		why string
		of  []tuner.Setting
	}{
		{"set, since the unit runs now: ", again.Started},
		{"set again, since the unit was restarted: ", again.Restarted},
		{"given to threads that had not inherited it, and to such threads from now on: ", fresh},
	} {
		var names []string
		for _, s := range one.of {
			names = append(names, s.Name())
		}
		if len(names) > 0 {
			w.events = append(w.events, capability.Event{Reason: v1alpha1.EventHostDrift, Text: "host profile: " + one.why + strings.Join(names, ", ")})
		}
	}
}

// comparison is a committed profile beside the host.
type comparison struct {
	// found is nil if no profile is committed.
	found *Report
	// judged is false if the profile changed during the comparison, and after an error.
	judged bool
	// record and rows are what was compared; rows are empty if the profile is not in force.
	record tuner.Applied
	rows   []tune.Verified
}

// compare reads the record and the host, in a cluster as far as the agent's pod shows it.
func (w *Watch) compare(dir string, inCluster bool) (c comparison, err error) {
	var from vantage
	if inCluster {
		if from, err = w.pod(); err != nil {
			return c, err
		}
		if from.isForeign(dir) {
			return c, fmt.Errorf("%s: %w", dir, ErrNotMounted)
		}
	}
	record, is, err := tuner.Load(dir)
	if err != nil {
		return c, err
	}
	if !is || record.Phase != tuner.Committed {
		return comparison{judged: true}, nil
	}
	c.record = record
	c.found = &Report{Profile: record.Profile.Name, Since: record.Since, Ended: !record.Stands(w.opts.Boot), Undone: record.IsUndone(), Drift: []tune.Verified{}}
	if c.found.Ended {
		c.judged = true
		return c, nil
	}
	originals, err := journal.Load(dir, driver.Values())
	if err != nil {
		return c, fmt.Errorf("stateDir/tune: %w", err)
	}
	from.onTrial = record.Args != nil && record.Args.Stage == tuner.OnTrial
	c.rows = record.Verify(w.opts.Root.FS(), w.opts.Kernel, originals.Entries)
	before := w.idle
	w.idle = record.Idle(w.opts.Root.FS())
	tuner.JudgeIdle(c.rows, before, w.idle)
	c.found.judge(w.found.steady(c.found.Since, c.rows), from)
	now, is, err := tuner.Load(dir)
	c.judged = is && now.Phase == tuner.Committed && now.Since.Equal(record.Since)
	return c, err
}

// lacks reports whether units may lack settings that repeat sets again.
func (w *Watch) lacks(c comparison) bool {
	inForce := c.found != nil && !c.found.Ended
	return inForce && w.opts.Groups != nil && (len(c.found.Drift) > 0 || c.record.Started(c.rows, w.opts.Groups))
}

// steady returns the rows of the same profile. A limit of idle states that was ignored keeps its row, with the figures
// of its event, until the kernel is seen to keep to the limit: its counts differ in each minute.
func (r *Report) steady(since time.Time, rows []tune.Verified) []tune.Verified {
	if r == nil || !r.Since.Equal(since) {
		return rows
	}
	for i, row := range rows {
		was := slices.IndexFunc(r.Drift, func(d tune.Verified) bool {
			return d.Knob == tuner.ResumeLatency && d.State == tune.Ignored && d.File == row.File && d.Want == row.Want
		})
		if was >= 0 && (row.State == tune.Ignored || row.State == tune.Unproven) {
			rows[i] = r.Drift[was]
		}
	}
	return rows
}

// judge adds the settings that the host does not have, and those that the agent cannot compare.
func (r *Report) judge(rows []tune.Verified, from vantage) {
	for _, row := range rows {
		if row.Stopped {
			r.Waiting = append(r.Waiting, tune.Name(row.Knob, row.Instance))
		}
		why := from.hides(row)
		switch {
		case why != "":
			r.Unseen = append(r.Unseen, Unseen{Knob: row.Knob, Instance: row.Instance, File: row.File, Why: why})
		case row.Differs() && row.State != tune.PendingReboot && row.State != tune.Partial: // the kernel made these of it
			r.Drift = append(r.Drift, row)
		}
	}
}

// changes returns the settings whose state differs from the last report.
func changes(before, now *Report) []tune.Verified {
	if now == nil {
		return nil
	}
	var known []tune.Verified
	if before != nil && before.Since.Equal(now.Since) {
		known = before.Drift
	}
	return slices.DeleteFunc(slices.Clone(now.Drift), func(row tune.Verified) bool { return slices.Contains(known, row) })
}

// text describes the changes, and names only the first three settings.
func (r *Report) text(changed []tune.Verified) string {
	const named = 3
	var parts []string
	for _, row := range changed[:min(len(changed), named)] {
		parts = append(parts, row.String())
	}
	if more := len(changed) - named; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("host profile %s: %s: berth tune verify", r.Profile, strings.Join(parts, "; "))
}
