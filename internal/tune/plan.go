package tune

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/knob"
	"github.com/berth-project/berth/internal/profile"
)

// Plan is what a profile would change. Its JSON is a stable contract.
type Plan struct {
	Profile  string            `json:"profile"`
	Settings []Setting         `json:"settings"`
	Findings []profile.Finding `json:"findings"`
}

// Setting is one value that a profile desires, in one place of the host.
type Setting struct {
	Knob     string `json:"knob"`
	Instance string `json:"instance"`
	// File is empty where the host has none for the setting.
	File string `json:"file"`
	// Now is empty where it cannot be read.
	Now     string       `json:"now"`
	Want    string       `json:"want"`
	Support knob.Support `json:"support"`
	// Class says how exactly it is undone.
	Class  knob.Class `json:"class"`
	Risk   knob.Risk  `json:"risk"`
	Reboot bool       `json:"reboot"`
	// Why says what is in the way, or what has to be known.
	Why string `json:"why"`

	// Write is what the file takes for Want, empty where there is no file.
	Write string `json:"-"`
	// Optional says that an apply goes on without it, and Fixed that nothing can set it.
	Optional bool `json:"-"`
	Fixed    bool `json:"-"`
	// Phase is the part of an apply that it belongs to.
	Phase knob.Phase `json:"-"`
}

// Stands says whether the host has the desired value already.
func (s Setting) Stands() bool { return s.File != "" && s.Now != "" && s.Now == s.Want }

// Knobs returns the names of the knobs that a plan of a profile asks the host for.
func Knobs(b profile.Bound) []string {
	var names []string
	for _, s := range b.Settings {
		names = append(names, s.Knob.Name)
	}
	return names
}

// Host is what a plan has to know of a host.
type Host struct {
	Survey knob.Survey
	Facts  knob.Facts
	// Elsewhere says where a moved sysctl is on this host, by its name.
	Elsewhere map[string]knob.Elsewhere
	// Files has the values of files of units' groups.
	Files map[string]string
	Boot  Boot
}

// Make returns the plan of a profile on a host. Findings are those of Lint.
func Make(b profile.Bound, h Host, findings []profile.Finding) Plan {
	p := Plan{Profile: b.Name, Settings: []Setting{}, Findings: findings}
	for _, s := range b.Settings {
		for _, f := range h.Survey[s.Knob.Name] {
			p.Settings = append(p.Settings, setting(s, f, h))
		}
	}
	p.Settings = append(p.Settings, partitions(b, h)...)
	for _, u := range b.Units {
		p.Settings = append(p.Settings, unit(u, h)...)
	}
	p.Settings = append(p.Settings, boots(b.Boot, h.Boot)...)
	slices.SortStableFunc(p.Settings, func(a, b Setting) int { return int(a.Phase - b.Phase) })
	return p
}

// last is the phase of what the next boot does.
const last = knob.Slices + 1

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
	switch {
	case row.Support == knob.Settable && f.Loss != "" && !row.Stands():
		row.Support, row.Why = knob.ReadOnly, f.Loss
	case row.Support == knob.Settable:
		row.Why = s.Knob.Trap
	case row.Support == knob.Absent && f.File == "":
		row.Why = gone(s, f, h)
	}
	if s.Optional && row.Support != knob.Settable {
		row.Why = "optional: " + row.Why
	}
	return row
}

// gone says what became of a knob that this kernel lacks.
func gone(s profile.Setting, f knob.Found, h Host) string {
	key, isSysctl := strings.CutPrefix(s.Knob.Name, knob.Prefix)
	moved, known := knob.Move(key)
	if !isSysctl || !known {
		return f.Why
	}
	return fmt.Sprintf("no sysctl since Linux %s; instead %s", moved.Since, h.Elsewhere[moved.Sysctl].Text)
}

// partitions are the sets that become cpuset partitions.
func partitions(b profile.Bound, h Host) []Setting {
	var rows []Setting
	for _, name := range slices.Sorted(maps.Keys(b.Sets)) {
		set := b.Sets[name]
		if set.Partition == "" || set.Partition == v1alpha1.PartitionMember {
			continue
		}
		row := Setting{
			Knob: "cpus.partition", Instance: name, Want: string(set.Partition) + " " + set.CPUs.String(),
			Support: knob.Absent, Class: knob.Lossy, Risk: knob.High, Phase: knob.Partitions,
			Why: "partitions need the unified hierarchy of control groups, which this host does not have",
		}
		if h.Facts.Unified != "" {
			row.Support = knob.Unknown
			row.Why = "only the kernel's answer to the write shows whether the partition is valid"
		}
		rows = append(rows, row)
	}
	return rows
}

// unit are the settings of one unit.
func unit(u profile.Unit, h Host) []Setting {
	group := h.Facts.Groups[u.Name]
	base := Setting{Instance: u.Name, Support: knob.Settable, Class: knob.Exact, Risk: knob.Medium, Phase: knob.Units}
	switch {
	case !h.Facts.HasUnit(u.Name):
		base.Support, base.Why = knob.Absent, "systemd has no such unit here"
	case group == "" && h.Facts.Unified != "":
		base.Support, base.Why = knob.Unknown, "the unit does not run"
	}
	var rows []Setting
	add := func(name, file, desired string, change func(*Setting)) {
		if desired == "" {
			return
		}
		row := base
		row.Knob, row.Want = name, desired
		if group != "" && file != "" {
			row.File = group + "/" + file
			row.Now = h.Files[row.File]
		}
		change(&row)
		rows = append(rows, row)
	}
	onV2 := func(class knob.Class, why string) func(*Setting) {
		return func(row *Setting) {
			row.Class = class
			switch {
			case row.Support == knob.Absent:
			case h.Facts.Unified == "":
				row.Support, row.Why = knob.Absent, "needs the unified hierarchy of control groups"
			case row.Why == "":
				row.Why = why
			}
		}
	}
	add("unit.cpus", "cpuset.cpus", u.CPUs.String(), onV2(knob.Restart, ""))
	add("unit.mems", "cpuset.mems", u.Mems.String(), onV2(knob.SideEffects, "its pages move at once, and stay where they are at an undo"))
	add("unit.policy", "", u.Policy, func(row *Setting) { row.Risk = risk(u.Policy) })
	add("unit.slice", "", u.Slice, func(row *Setting) {
		if row.Support == knob.Settable {
			row.Support, row.Why = knob.Unknown, "only Linux 6.12 and newer take it, and only the answer to the call shows it"
		}
	})
	return rows
}

// risk is that of a scheduling policy.
func risk(policy string) knob.Risk {
	if _, priority, _ := profile.Policy(policy); priority > 0 {
		return knob.High
	}
	return knob.Low
}
