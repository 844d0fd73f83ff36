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
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/tune"
	"github.com/berth-project/berth/internal/tuner"
)

const (
	// every is how often the host is compared.
	every = time.Minute
	// settle is how long after a CPU came or went: its files come and go a moment later.
	settle = 2 * time.Second
)

// Options are what a Watch works on.
type Options struct {
	Root *hostfs.Root
	// Boot is the id of this boot.
	Boot string
	// Groups are the control groups of units; without them, nil, nothing is set again. Now is the
	// wall clock.
	Groups *cgroup.Host
	Now    func() time.Time
	// Keep starts what undoes a record that is due, nil for nothing. The agent itself may not write
	// all that a profile may.
	Keep func(tuner.Applied) error
	// Boottime is CLOCK_BOOTTIME.
	Boottime func() time.Duration
}

// Watch compares the host with the committed profile.
type Watch struct {
	opts Options
	// due has the state directory of a comparison that is to be made.
	due    chan string
	next   time.Duration
	online cpuset.Set
	// guarded is of Run alone.
	guarded guarded

	mu     sync.Mutex // guards what Run has found for the loop
	found  *Report
	events []capability.Event
	broken error
}

// New returns the capability. It compares once Run is called.
func New(o Options) *Watch { return &Watch{opts: o, due: make(chan string, 1)} }

// Report is what the last comparison found. Its JSON is a stable contract.
type Report struct {
	Profile string `json:"profile"`
	// Since is when the profile was applied.
	Since time.Time `json:"since"`
	// Ended says that the profile is committed and not in force: a boot ended it, or, as Undone says, an apply of it
	// was undone.
	Ended  bool `json:"ended,omitempty"`
	Undone bool `json:"undone,omitempty"`
	// Drift are the settings that the host does not have.
	Drift []tune.Verified `json:"drift"`
}

// Run makes the comparisons that Decide orders, until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case dir := <-w.due:
			w.look(dir)
		}
	}
}

// Decide implements capability.Decider: it orders a comparison when one is due, and reports
// what the last one found. It desires nothing.
func (w *Watch) Decide(n *capability.Node) capability.Decision {
	if *n.Config.Cluster.Enabled {
		return capability.Decision{}
	}
	if n.Online != w.online {
		w.online, w.next = n.Online, min(w.next, n.Now+settle)
	}
	if n.Now >= w.next {
		select {
		case w.due <- n.Config.StateDir:
			w.next = n.Now + every
		default: // the one before is under way
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := capability.Decision{Events: w.events}
	w.events = nil
	return d
}

// grace is how long after its deadline a record is left to who keeps it.
const grace = 10 * time.Second

// guard starts what undoes a record that is overdue: who kept its deadline was killed, or never
// started.
func (w *Watch) guard(dir string) error {
	record, is, err := tuner.Load(dir)
	if err != nil || !is || w.opts.Keep == nil || !record.Due(w.opts.Boot, w.opts.Boottime()-grace) {
		return err
	}
	seen := guarded{since: record.Since, phase: record.Phase, at: w.opts.Boottime()}
	if w.guarded.isOf(seen) {
		return nil
	}
	if _, held, err := journal.Holder(dir); held || err != nil { // A command at work looks due.
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

// isOf reports whether the keeper for that record was started within the last hour. One that found
// values of other programs has ended, and leaves them to the user.
func (g guarded) isOf(seen guarded) bool {
	return g.since.Equal(seen.since) && g.phase == seen.phase && seen.at-g.at < time.Hour
}

// look compares once, and once more after it set something again.
func (w *Watch) look(stateDir string) {
	dir := filepath.Join(stateDir, tuner.Subdir)
	guarded := w.guard(dir)
	found, judged, err := w.compare(dir)
	var again []tuner.Setting
	if err == nil && judged && found != nil && len(found.Drift) > 0 && w.opts.Groups != nil {
		again, err = w.repeat(stateDir)
	}
	if len(again) > 0 {
		var broken error
		found, judged, broken = w.compare(dir)
		err = errors.Join(err, broken)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = errors.Join(guarded, err)
	if len(again) > 0 {
		w.events = append(w.events, capability.Event{Reason: v1alpha1.EventHostDrift, Text: repeated(again)})
	}
	if !judged {
		return
	}
	if changed := changes(w.found, found); len(changed) > 0 {
		w.events = append(w.events, capability.Event{Reason: v1alpha1.EventHostDrift, Text: found.text(changed), Warning: true})
	}
	w.found = found
}

// repeat sets again what units that were started anew lost. Nothing is while a command works on a
// profile.
func (w *Watch) repeat(stateDir string) (again []tuner.Setting, err error) {
	u, err := tuner.Open(tuner.Host{
		Dir: filepath.Join(stateDir, tuner.Subdir), AgentDir: stateDir, Root: w.opts.Root, Groups: w.opts.Groups,
		Boot: w.opts.Boot, Now: w.opts.Now, Boottime: kernel.Boottime,
	})
	if errors.Is(err, journal.ErrLocked) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	again, err = u.Repeat()
	return again, errors.Join(err, u.Close())
}

// repeated says what was set again.
func repeated(again []tuner.Setting) string {
	var names []string
	for _, s := range again {
		names = append(names, s.Knob+" "+s.Instance)
	}
	return "host profile: set again, since the unit was started anew: " + strings.Join(names, ", ")
}

// compare reads the record and the host, nil for no committed profile. What is being changed
// meanwhile is not judged.
func (w *Watch) compare(dir string) (found *Report, judged bool, err error) {
	record, is, err := tuner.Load(dir)
	if err != nil {
		return nil, false, err
	}
	if !is || record.Phase != tuner.Committed {
		return nil, true, nil
	}
	found = &Report{Profile: record.Profile.Name, Since: record.Since, Ended: !record.Stands(w.opts.Boot), Undone: record.IsUndone(), Drift: []tune.Verified{}}
	if found.Ended {
		return found, true, nil
	}
	originals, err := journal.Load(dir, driver.Values())
	if err != nil {
		return nil, false, fmt.Errorf("stateDir/tune: %w", err)
	}
	for _, row := range record.Verify(w.opts.Root.FS(), originals.Entries) {
		if row.Differs() && row.State != tune.PendingReboot && row.State != tune.Partial { // which the kernel made of it
			found.Drift = append(found.Drift, row)
		}
	}
	now, is, err := tuner.Load(dir)
	return found, is && now.Phase == tuner.Committed && now.Since.Equal(record.Since), err
}

// changes are the settings of which something else is true than was before.
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

// text says what changed; of many settings it names the first.
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
