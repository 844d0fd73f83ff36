package tune

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// The knobs of partitions. Exclusive are the CPUs that partitions below a group may use.
const (
	Partition = "cpus.partition"
	Exclusive = "cpus.exclusive"
)

const (
	partitionFile = "cpuset.cpus.partition"
	exclusiveFile = "cpuset.cpus.exclusive"
)

// onlyAnswered says when it is known whether a partition is valid.
const onlyAnswered = "only the kernel's answer to the write shows whether the partition is valid"

// partitions returns the units that become cpuset partitions, after the CPUs that each group above them must give away,
// from the top down. Sets that no unit turns into a partition follow.
func partitions(b profile.Bound, h Host) []Setting {
	var rows []Setting
	given := map[string]cpuset.Set{} // by the path of a group
	of := map[string]bool{}
	for _, u := range b.Units {
		if u.Partition == "" {
			continue
		}
		of[u.Set] = true
		row := partition(u, h)
		rows = append(rows, row)
		if group := h.Facts.Groups[u.Name]; row.Support == knob.Settable && path.Dir(group) != h.Facts.Unified {
			for at := group; at != h.Facts.Unified; at = path.Dir(at) {
				given[at] = given[at].Union(u.CPUs)
			}
		}
	}
	var first []Setting
	for _, group := range slices.Sorted(maps.Keys(given)) {
		first = append(first, exclusive(group, given[group], h))
	}
	return slices.Concat(first, rows, unused(b, of, h))
}

func partition(u profile.Unit, h Host) Setting {
	group := h.Facts.Groups[u.Name]
	row := Setting{
		Knob: Partition, Instance: u.Name, Want: string(u.Partition), Write: string(u.Partition),
		Class: knob.Lossy, Risk: knob.High, Phase: knob.Partitions,
	}
	if row.Support, row.Why = runs(u, group, h, false); row.Support == knob.Settable {
		row.Why = onlyAnswered + "; " + NotDurable
	}
	if group == "" {
		return row
	}
	row.File, row.Now = group+"/"+partitionFile, string(v1alpha1.PartitionMember)
	if now := h.Files[row.File]; now != "" { // without the controller there is no file
		row.Now = now
	}
	if path.Dir(group) != h.Facts.Unified && !h.Facts.Remote {
		row.Support = knob.Absent
		row.Why = fmt.Sprintf("needs Linux 6.7 below another group, which %s is; older ones take a unit at the top, such as a slice of its own", strings.TrimPrefix(group, h.Facts.Unified+"/"))
	}
	return row
}

// exclusive returns the CPUs that a group gives to partitions.
func exclusive(group string, cpus cpuset.Set, h Host) Setting {
	file := group + "/" + exclusiveFile
	now, _ := cpuset.Parse(h.Files[file]) // an unreadable file gives none
	want := now.Union(cpus).String()
	return Setting{
		Knob: Exclusive, Instance: path.Base(group), File: file, Now: h.Files[file], Want: want, Write: want,
		Support: knob.Settable, Class: knob.Exact, Risk: knob.Low, Phase: knob.Exclusives,
	}
}

// unused returns the sets that should be partitions but belong to no unit.
func unused(b profile.Bound, of map[string]bool, h Host) []Setting {
	var rows []Setting
	for _, name := range slices.Sorted(maps.Keys(b.Sets)) {
		set := b.Sets[name]
		if !set.Exclusive() || of[name] {
			continue
		}
		row := Setting{
			Knob: Partition, Instance: name, Want: string(set.Partition) + " " + set.CPUs.String(),
			Support: knob.Absent, Class: knob.Lossy, Risk: knob.High, Phase: knob.Partitions, Why: noHierarchy,
		}
		if h.Facts.Unified != "" {
			row.Why = "a partition is a unit's: add {unit: NAME, cpus: " + name + "} to units, here or in a profile that inherits this one"
		}
		rows = append(rows, row)
	}
	return rows
}

const noHierarchy = "partitions need the unified hierarchy of control groups, which this host does not have"

// Files returns the files that a plan needs of the groups of a unit, some of them as patterns.
func Files(unit string, f knob.Facts) []string {
	if group := f.CPUGroups[unit]; group != "" {
		return budgetFiles(group, f.CPU)
	}
	group := f.Groups[unit]
	files := []string{group + "/cpuset.cpus", group + "/cpuset.mems", group + "/" + cpuFile, group + "/" + partitionFile}
	for at := group; f.Unified != "" && at != f.Unified; at = path.Dir(at) {
		files = append(files, at+"/"+exclusiveFile)
	}
	return files
}
