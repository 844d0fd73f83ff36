package tune

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/cgroup"
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
// from the top down. Sets of no unit follow, each with a slice of its own.
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
	return slices.Concat(first, rows, owned(b, of, h))
}

func partition(u profile.Unit, h Host) Setting {
	group := h.Facts.Groups[u.Name]
	row := Setting{
		Knob: Partition, Instance: u.Name, Want: string(u.Partition), Write: string(u.Partition),
		Class: knob.Lossy, Risk: knob.High, Phase: knob.Partitions,
	}
	if row.Support, row.Why, row.Stopped = runs(u, group, h, false); row.Support == knob.Settable {
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

// owned returns the sets that should be partitions but belong to no unit: Berth starts a slice for each.
func owned(b profile.Bound, of map[string]bool, h Host) []Setting {
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
		switch {
		case h.Facts.Unified == "":
		case !h.Facts.Systemd:
			row.Why = noSystemd
		default:
			row.Instance, row.Support, row.Write, row.OwnSlice = OwnSlice(name), knob.Settable, row.Want, true
			row.File = h.Facts.Unified + "/" + row.Instance + "/" + partitionFile
			row.Now = cmp.Or(SliceNow(row.File, func(file string) string { return h.Files[file] }), cgroup.NoSlice)
			row.Why = fmt.Sprintf("Berth starts this slice; %s; a rollback stops it when no unit is in it; %s", Joins(row.Instance), onlyAnswered)
		}
		rows = append(rows, row)
	}
	return rows
}

const noHierarchy = "partitions need the unified hierarchy of control groups, which this host does not have"

const noSystemd = "no unit has these CPUs, and without systemd Berth has no slice for them"

// OwnSlice returns the slice that Berth starts for a set of CPUs which no unit has. It is at the top of the hierarchy:
// systemd has every other name with a dash inside another slice, so the dash is escaped.
func OwnSlice(set string) string { return strings.ReplaceAll("berth-"+set, "-", `\x2d`) + ".slice" }

// Joins says how services join a slice.
func Joins(slice string) string { return "services join it with Slice=" + slice }

// SliceNow returns the value of a slice from the file of its partition, "" if the slice does not run. text reads a
// file.
func SliceNow(file string, text func(string) string) string {
	return cgroup.SliceText(text(file), text(sliceCPUs(file)))
}

// sliceCPUs returns the file of the CPUs of a slice, given the file of its partition.
func sliceCPUs(file string) string { return path.Dir(file) + "/cpuset.cpus.effective" }

// SliceFiles returns the files that a plan needs of the slices that Berth starts.
func SliceFiles(b profile.Bound, f knob.Facts) []string {
	var files []string
	for name, set := range b.Sets {
		if set.Exclusive() && f.Unified != "" {
			file := f.Unified + "/" + OwnSlice(name) + "/" + partitionFile
			files = append(files, file, sliceCPUs(file))
		}
	}
	return files
}

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
