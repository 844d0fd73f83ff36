package tuner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/durable"
)

// Subdir is the directory of host profiles within stateDir.
const Subdir = "tune"

// recordFile is the name of the record within the directory of the journal.
const recordFile = "applied"

// Phase tells how far an apply has come.
type Phase string

// The phases of an apply.
const (
	// Applying: the writes are under way, or all is written for the time of a measurement, or the writer died.
	Applying Phase = "applying"
	// Trial: all is written, and will be undone at the deadline.
	Trial Phase = "trial"
	// Committed: all is written, and stays until a rollback or the next boot.
	Committed Phase = "committed"
	// Undoing: originals are being restored, or some could not be.
	Undoing Phase = "undoing"
)

// Applied is the record of the profile that is applied.
type Applied struct {
	// Profile is the profile with the settings that it inherited.
	Profile v1alpha1.Profile `json:"profile"`
	// Boot is the id of the boot of the apply, "" if the apply was undone and the committed profile is only remembered.
	Boot string `json:"boot"`
	// Since is the time of the apply by the wall clock.
	Since time.Time `json:"since"`
	// Deadline is when the apply is undone, in CLOCK_BOOTTIME, unless it is committed.
	Deadline time.Duration `json:"deadline"`
	Phase    Phase         `json:"phase"`
	// PID is the process that applies the profile.
	PID int `json:"pid,omitempty"`
	// Settings are the settings of the profile that the host has, in the order of the apply.
	Settings []Setting `json:"settings"`
	// Left are settings that the kernel refused and that the apply went on without.
	Left []Setting `json:"left,omitempty"`
	// Dormant are settings whose CPUs were offline. The next apply of the same profile tries them again.
	Dormant []Setting `json:"dormant,omitempty"`
	// Waiting are settings of units that did not run at the apply. They become Settings when the units run.
	Waiting []Setting `json:"waiting,omitempty"`
	// Args are the boot arguments, nil where the profile has none.
	Args *Arguments `json:"args,omitempty"`
	// Fired is how often each interrupt had fired when it was given its CPUs, by the file of its setting. The kernel
	// moves an interrupt when it fires next.
	Fired map[string]uint64 `json:"fired,omitempty"`
	// Groups are the groups that units had at the apply, or when Repeat looked last, by the file of a setting that ends
	// with the group. A setting that the unit had already has no journal entry: only this shows a restart then.
	Groups map[string]plan.Identity `json:"groups,omitempty"`
	// Former is the profile that was committed before, in an earlier boot or by the same profile. It is remembered
	// until this apply is committed or rolled back.
	Former *Applied `json:"former,omitempty"`
	// Died is in how many boots in a row the host died while this profile was applied again.
	Died int `json:"died,omitempty"`
	// Early is the boot in which units got lists of this profile before they started. It is "" once an apply of the
	// profile has ended after that.
	Early string `json:"early,omitempty"`
}

// Setting is one setting of an applied profile.
type Setting struct {
	Knob     string `json:"knob"`
	Instance string `json:"instance,omitempty"`
	File     string `json:"file"`
	// Want is the value in the words of users. Value is the value in the format of the target.
	Want   string      `json:"want"`
	Value  plan.Value  `json:"value"`
	Target plan.Target `json:"target"`
}

// Name returns the setting's knob with its instance.
func (s Setting) Name() string { return tune.Name(s.Knob, s.Instance) }

// RecordFile returns the path of the record in a directory.
func RecordFile(dir string) string { return filepath.Join(dir, recordFile) }

// Load returns the record in a directory, and false if there is none. It does not lock.
func Load(dir string) (Applied, bool, error) {
	data, mode, err := read(RecordFile(dir))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Applied{}, false, nil
	}
	if err != nil {
		return Applied{}, false, fmt.Errorf("read what is applied: %w", err)
	}
	var a Applied
	if err := json.Unmarshal(data, &a); err != nil {
		return Applied{}, false, fmt.Errorf("read %s: it is damaged (%w): move it away, and berth tune rollback puts back what the journal beside it has", RecordFile(dir), err)
	}
	if mode&fs.ModeSticky != 0 { // set by mark
		a.Phase = Undoing
		if mode&remembering == 0 {
			a.Former = nil
		}
	}
	return a, true, nil
}

// read returns the text and the mode of one file: another file may get its name in between.
func read(name string) ([]byte, fs.FileMode, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err //nolint:wrapcheck // Load's words
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err //nolint:wrapcheck // Load's words
	}
	data, err := io.ReadAll(f)
	return data, info.Mode(), err
}

// Due reports whether the record must be undone now, given that no process works on it: an apply or an undo died, or a
// trial is past its deadline.
func (a Applied) Due(boot string, now time.Duration) bool {
	if a.Boot != boot { // files outlive a boot, and so does half of an apply
		return a.Args != nil && (a.Phase == Applying || a.Phase == Undoing)
	}
	return (a.Phase == Applying || a.Phase == Undoing || a.Phase == Trial && now >= a.Deadline)
}

// Stands reports whether the host still has the applied settings: the record is of this boot.
func (a Applied) Stands(boot string) bool { return a.Boot == boot }

// Has reports whether the record names a target, whichever path leads to it, and is of this boot: an apply, or Ahead,
// may have written the target.
func (a Applied) Has(t plan.Target, boot string) bool {
	return (a.Stands(boot) || a.Early == boot && boot != "") && a.names(t)
}

// Returns returns the committed profile that has a target and is not in force: apply --committed sets it again. It
// returns false if there is none. A profile that an apply of this boot covers is included, since the apply may be
// undone.
func (a Applied) Returns(t plan.Target, boot string) (profile string, is bool) {
	for r := &a; r != nil; r = r.Former {
		if r.Phase == Committed && !r.Stands(boot) && r.names(t) {
			return r.Profile.Name, true
		}
	}
	return "", false
}

// names reports whether a target, whichever path leads to it, is in the record.
func (a Applied) names(t plan.Target) bool {
	return slices.ContainsFunc(a.all(), func(s Setting) bool { return s.Target.Place() == t.Place() })
}

// all returns the settings of the profile, in force or not.
func (a Applied) all() []Setting { return slices.Concat(a.Settings, a.Left, a.Dormant, a.Waiting) }

// Moment returns the deadline by the wall clock, given the present time of both clocks.
func (a Applied) Moment(boottime time.Duration, now time.Time) time.Time {
	return now.Add(a.Deadline - boottime).Round(time.Second)
}

// Verify compares each setting with the tree of a host, and with what its kernel answers. Entries are those of the
// journal beside the record.
func (a Applied) Verify(tree fs.FS, asked Kernel, entries []journal.Entry) []tune.Verified {
	host, survey, all := knob.Open(tree), knob.Survey{}, []tune.Verified{}
	host.Scheduled = asked.Scheduled
	_, idle := a.split(host)
	for _, s := range slices.Concat(a.Settings, a.Waiting) {
		if driver.IsBan(s.Target) {
			continue // the setting that it serves is compared
		}
		row := tune.Verified{Knob: s.Knob, Instance: s.Instance, File: s.File, Want: s.Want}
		if slices.Contains(idle, s) {
			all = append(all, unset(row))
			continue
		}
		if driver.IsUnit(s.Target) {
			all = append(all, verifyUnit(row, s.Target, host))
			continue
		}
		k, _ := knob.Lookup(s.Knob) // a knob of another version has no file, which is reported
		if survey[s.Knob] == nil {
			survey[s.Knob] = host.Probe(k)
		}
		row = tune.Verify(row, survey[s.Knob], s.made(entries), func(f knob.Found) string { return host.Effective(k, f) })
		if row.State == tune.Ignored && a.awaitsFire(tree, s.File) {
			row.State = tune.Pending
		}
		all = append(all, asked.readBack(row))
	}
	for _, s := range a.Dormant { // they were not written
		all = append(all, tune.Verified{Knob: s.Knob, Instance: s.Instance, File: s.File, Want: s.Want, State: tune.Dormant})
	}
	return append(all, a.verifyArgs(tree)...)
}

// made returns what the kernel made of the setting, "" if unknown. A setting without an entry was already in effect.
func (s Setting) made(entries []journal.Entry) string {
	i := slices.IndexFunc(entries, func(e journal.Entry) bool { return e.Target == s.Target })
	if i < 0 {
		return s.Want
	}
	return string(entries[i].Made)
}

// former returns the record that remains if the next apply of this profile is undone: the committed profile, which the
// host then no longer has, as after a boot.
func (a Applied) former() *Applied {
	if a.Phase != Committed {
		return a.Former
	}
	a.Boot, a.Former = "", nil
	return &a
}

// IsUndone reports whether a committed profile is not in force since an apply of it was undone.
func (a Applied) IsUndone() bool { return a.Boot == "" && a.Phase == Committed }

// isOf reports whether the record has these settings of this profile. A setting that waited for its unit may have
// another place now.
func (a Applied) isOf(name string, settings []Setting, args *Arguments) bool {
	waited := func(s Setting) bool { return slices.ContainsFunc(a.Waiting, s.isLike) }
	settings, asked := slices.DeleteFunc(slices.Clone(settings), waited), slices.DeleteFunc(a.all(), waited)
	return a.Profile.Name == name && covers(asked, settings) && covers(settings, asked) && slices.Equal(a.Args.want(), args.want())
}

// keep adds settings of an earlier apply whose CPUs are offline now: the host still has them.
func (a *Applied) keep(before Applied) {
	a.Dormant = slices.DeleteFunc(a.Dormant, func(s Setting) bool { return slices.Contains(before.Settings, s) })
	for _, s := range before.Settings {
		if slices.ContainsFunc(a.Settings, func(now Setting) bool { return now.Target == s.Target }) {
			continue
		}
		a.Settings = append(a.Settings, s)
		if group, known := before.Groups[s.File]; known {
			a.Groups[s.File] = group
		}
	}
}

// drop removes left and dormant settings from Settings.
func (a *Applied) drop() {
	a.Settings = slices.DeleteFunc(a.Settings, func(s Setting) bool { return slices.Contains(a.Left, s) || slices.Contains(a.Dormant, s) })
}

// covers reports whether all of some are in others. Frequency policies come and go with their CPUs: one policy of a
// knob is enough.
func covers(others, some []Setting) bool {
	return !slices.ContainsFunc(some, func(s Setting) bool {
		return !slices.ContainsFunc(others, func(o Setting) bool {
			return o == s || knob.InPolicy(s.File) && knob.InPolicy(o.File) && o.Knob == s.Knob && o.Value == s.Value
		})
	})
}

// save puts the record on disk.
func (a Applied) save(dir string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode what is applied: %w", err)
	}
	return durable.Rewrite(filepath.Join(dir, recordFile), data, ownerOnly, true)
}

// ownerOnly is the mode of the record.
const ownerOnly fs.FileMode = 0o600

// remembering is a bit of the mode: without it, a record whose undo has begun remembers no former profile.
const remembering fs.FileMode = 0o200

// mark marks the record on disk as being undone, by the sticky bit of its mode, whatever its text says. A mode needs no
// room on a full disk, and a kill while it waits for the disk does not stop it. Both could stop a write of the text.
func (a Applied) mark(dir string) error {
	mode := ownerOnly | fs.ModeSticky
	if a.Former == nil {
		mode &^= remembering
	}
	if err := os.Chmod(RecordFile(dir), mode); err != nil {
		return fmt.Errorf("mark what is applied: %w", err)
	}
	return nil
}

func remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, recordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what is applied: %w", err)
	}
	return durable.SyncDir(dir)
}
