package tune

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/knob"
)

// Plan is the changes that a profile would make. Its JSON is a stable contract.
type Plan struct {
	Profile  string            `json:"profile"`
	Settings []Setting         `json:"settings"`
	Findings []profile.Finding `json:"findings"`
	// Refuses names the settings for which an apply refuses the profile: required settings that cannot be set, and
	// settings that the agent holds.
	Refuses []string `json:"refuses"`

	// Boot is how the host boots.
	Boot Boot `json:"-"`
}

// Setting is one value that a profile desires, in one place of the host.
type Setting struct {
	Knob     string `json:"knob"`
	Instance string `json:"instance"`
	// File is empty if the host has no file for the setting.
	File string `json:"file"`
	// Now is empty if the value cannot be read.
	Now     string       `json:"now"`
	Want    string       `json:"want"`
	Support knob.Support `json:"support"`
	// Class is how exactly the setting can be undone.
	Class  knob.Class `json:"class"`
	Risk   knob.Risk  `json:"risk"`
	Reboot bool       `json:"reboot"`
	// Why is the obstacle, or what an administrator must know.
	Why string `json:"why"`

	// Write is the text of Want for the file, empty if there is no file.
	Write string `json:"-"`
	// OwnSlice is true for a slice that Berth starts, as the partition of CPUs that no unit has.
	OwnSlice bool `json:"-"`
	// Optional is true if an apply continues without the setting, Fixed if nothing can set it.
	Optional bool `json:"optional"`
	Fixed    bool `json:"-"`
	// Stopped is true if the setting's unit does not run, or if systemd has no such unit.
	Stopped bool `json:"-"`
	// Phase is the setting's part of an apply.
	Phase knob.Phase `json:"-"`
}

// OfGroup reports whether a setting belongs to a unit's group, or to its threads.
func (s Setting) OfGroup() bool {
	return s.Phase == knob.Units || s.Phase == knob.Budgets || s.Phase == knob.Exclusives || s.Phase == knob.Partitions
}

// Stands reports whether the host has the desired value already.
func (s Setting) Stands() bool { return s.File != "" && s.Now != "" && s.Now == s.Want }

// Knobs returns the names of the knobs that a plan of a profile reads on the host.
func Knobs(b profile.Bound) []string {
	var names []string
	for _, s := range b.Settings {
		names = append(names, s.Knob.Name)
	}
	return names
}

// Host is the state of a host that a plan needs.
type Host struct {
	Survey knob.Survey
	Facts  knob.Facts
	// Elsewhere is the place of a moved sysctl on this host, by its name.
	Elsewhere map[string]knob.Elsewhere
	// Files are the values of files of units' groups. Threads is the scheduler's state of the threads of each group.
	Files   map[string]string
	Threads map[string]knob.Threads
	// Memory are the movable bytes of units' groups, by group and NUMA node. Room is the free room of each node.
	// Unknown values are missing.
	Memory map[string]map[int]int64
	Room   map[int]int64
	// Slices is whether this kernel has slices of single threads, "" if unknown.
	Slices knob.Support
	Boot   Boot
}

// Make returns the plan of a profile on a host. findings come from Lint, the warnings first, and so are those of the
// plan: Make adds warnings only.
func Make(b profile.Bound, h Host, findings []profile.Finding) Plan {
	p := Plan{Profile: b.Name, Settings: []Setting{}, Findings: append(otherCPUs(h.Boot), findings...), Boot: h.Boot}
	for _, s := range b.Settings {
		for _, f := range h.Survey[s.Knob.Name] {
			if f.Dormant { // the program that brings the CPUs back applies again
				continue
			}
			p.Settings = append(p.Settings, setting(s, f, h))
		}
	}
	keepWatchdog(p.Settings)
	p.Settings = append(p.Settings, budgets(b.Units, h)...)
	for _, u := range b.Units {
		p.Settings = append(p.Settings, unit(u, b.Units, h)...)
	}
	p.Settings = append(p.Settings, partitions(b, h)...)
	p.Settings = append(p.Settings, boots(b.Boot, h.Boot)...)
	slices.SortStableFunc(p.Settings, func(a, b Setting) int { return int(a.Phase - b.Phase) })
	p.Refuses = names(p.Divide().Blocked)
	return p
}

// Held returns the plan with the settings that another program holds; by returns its name, and may add to the remark of
// any other setting. An apply refuses the profile for them, also for optional settings.
func (p Plan) Held(by func(*Setting) string) Plan {
	p.Settings = slices.Clone(p.Settings)
	var held []Setting
	for i := range p.Settings {
		s := &p.Settings[i]
		who := ""
		if s.Support == knob.Settable {
			who = by(s)
		}
		if who != "" {
			s.Support, s.Why = knob.ReadOnly, who
			held = append(held, *s)
		}
	}
	p.Refuses = names(append(p.Divide().Blocked, held...))
	return p
}

// WithoutStopped returns the plan without the settings of units that do not run, and these settings. Their remarks say
// who sets them later.
func (p Plan) WithoutStopped() (rest Plan, stopped []Setting) {
	all := p.Settings
	p.Settings = nil
	for _, s := range all {
		if !s.Stopped {
			p.Settings = append(p.Settings, s)
			continue
		}
		who := "the agent of a host without Kubernetes or "
		if s.Knob == UnitCPUs || s.Knob == UnitMems {
			who = "unless berth-ahead gave it, "
		}
		s.Why += "; once it runs, " + who + "berth tune apply --committed sets it"
		stopped = append(stopped, s)
	}
	p.Refuses = names(p.Divide().Blocked)
	return p, stopped
}

// names returns the settings by their user-visible names, each once. A knob with many instances is listed without them;
// settings of units and of the next boot include the instance.
func names(settings []Setting) []string {
	all := []string{}
	for _, s := range settings {
		name := s.Knob
		if s.Instance != "" && (s.OfGroup() || s.Phase == knob.Boot) {
			name += " " + s.Instance
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// keepWatchdog blocks the switch-off of the second lockup detector, if a profile switches both off.
func keepWatchdog(all []Setting) {
	one := false
	for i := range all {
		s := &all[i]
		if s.Support != knob.Settable || s.Stands() || !knob.IsWatchdog(s.File) || s.Want != "0" {
			continue
		}
		if one {
			s.Support, s.Why = knob.ReadOnly, knob.LastWatchdog
		}
		one = true
	}
}

func setting(s profile.Setting, f knob.Found, h Host) Setting {
	row := Setting{
		Knob: s.Knob.Name, Instance: f.Instance, File: f.File, Now: f.Now, Want: s.Value.Text,
		Support: f.Support, Class: s.Knob.Class, Risk: s.Knob.Risk, Why: f.Why, Phase: s.Knob.Phase,
		Optional: s.Optional, Fixed: f.Fixed,
	}
	if f.File != "" {
		row.Write = s.Knob.Written(f.Place, s.Value)
	}
	if len(f.Allowed) > 0 && !slices.Contains(f.Allowed, s.Value.Text) {
		row.Support = knob.Absent
		row.Why = "this host takes " + strings.Join(f.Allowed, ", ")
	}
	if misfit := s.Knob.Misfit(f, s.Value); misfit != "" {
		row.Support, row.Why = knob.Absent, misfit
	}
	switch {
	case row.Support == knob.Settable:
		row.Why = s.Knob.Trap
		if why := harm(row, f.LossOf(s.Value.Text), h.Facts); why != "" {
			row.Support, row.Why = knob.ReadOnly, why
		}
	case row.Support == knob.Absent && f.File == "":
		row.Why = gone(s, f, h)
	}
	if s.Optional && row.Support != knob.Settable {
		row.Why = "optional: " + row.Why
	}
	return row
}

// harm returns why Berth leaves a setting alone that the kernel accepts, "" for no reason. loss is what is lost with
// the value.
func harm(row Setting, loss string, facts knob.Facts) string {
	switch {
	case loss != "" && !row.Stands():
		return loss
	case belowRoot(row, facts):
		return fmt.Sprintf(refusedBelow, span(facts.RTRoot))
	}
	return cmp.Or(noOriginal(row), noRoom(row, facts.Memory))
}

// gone explains what happened to a knob that this kernel lacks.
func gone(s profile.Setting, f knob.Found, h Host) string {
	if ended, is := knob.Ended(s.Knob.Name); is {
		return fmt.Sprintf("%s; Linux %s and newer have none, instead %s", f.Why, ended.Gone, ended.Instead)
	}
	key, isSysctl := strings.CutPrefix(s.Knob.Name, knob.Prefix)
	moved, known := knob.Move(key)
	if !isSysctl || !known {
		return f.Why
	}
	return fmt.Sprintf("no sysctl since Linux %s; instead %s", moved.Since, h.Elsewhere[moved.Sysctl].Text)
}
