package tuner

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/linux/knob"
)

// Overruled returns a finding for each file that gives a unit of a profile another list. systemd reads such a file
// instead of the list that Berth gave the unit, or after it, at each daemon-reload.
func Overruled(host *knob.Host, units []profile.Unit) []profile.Finding {
	found := []profile.Finding{}
	for _, u := range units {
		for _, of := range [][2]string{{tune.UnitCPUs, u.CPUs.String()}, {tune.UnitMems, u.Mems.String()}} {
			if text := otherList(host, of[0], u.Name, of[1]); text != "" {
				found = append(found, profile.Finding{Code: "drop-in", Severity: profile.Warning, Text: text})
			}
		}
	}
	return found
}

// otherList returns a sentence about a file that gives a unit another list, "" if there is none or the setting is no
// list.
func otherList(host *knob.Host, name, unit, list string) string {
	property := map[string]string{tune.UnitCPUs: "AllowedCPUs", tune.UnitMems: "AllowedMemoryNodes"}[name]
	if property == "" || list == "" {
		return ""
	}
	file := knob.DropIn(host, unit, property, list)
	if file == "" {
		return ""
	}
	return fmt.Sprintf("%s %s: %s has another %s=, which the unit gets after a daemon-reload, at its next start at the latest: remove it there, or the list from the profile",
		name, unit, file, property)
}

// overruled returns a sentence for each list of the record that another file overrules.
func (a Applied) overruled(tree fs.FS) []string {
	var notes []string
	host := knob.Open(tree)
	for _, s := range slices.Concat(a.Settings, a.Waiting) {
		if !driver.IsListOfUnit(s.Target) {
			continue
		}
		if note := otherList(host, s.Knob, s.Instance, s.Want); note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}
