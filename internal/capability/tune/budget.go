package tune

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/knob"
)

// noBudget is why a group of the unified hierarchy cannot have real-time threads.
const noBudget = "this kernel gives a group a budget for real-time threads (CONFIG_RT_GROUP_SCHED), which for a unit is 0, and cgroup v2 has no file for it: boot with rt_group_sched=0 where the kernel knows that"

// refusedBelow is why all groups together cannot have less than the root group.
const refusedBelow = "the root group has %s for real-time threads (CONFIG_RT_GROUP_SCHED), and the kernel takes no less for all: first lower its " + budgetFile + ", which only cgroup v1 has"

// belowRoot reports whether a setting would give all groups together less than the root group has. It checks the knob
// last: it is called for thousands of files, and canonical searches for a sysctl's other name.
func belowRoot(s Setting, f knob.Facts) bool {
	n, err := strconv.ParseInt(s.Write, 10, 64)
	return err == nil && n >= 0 && n < f.RTRoot && !s.Stands() && canonical(s.Knob) == "rt.runtime"
}

// second is the period of a budget, in microseconds: a profile's budgets apply to one second.
const second = 1_000_000

// budgets returns the groups that get more for real-time threads, from the top down. A group gets no more than its
// parent has, which its siblings share (tg_rt_schedulable in kernel/sched/rt.c). The root group does not change. No
// sysctl sets it: sched_init gives it the value of kernel.sched_rt_runtime_us at the boot. A later write of that sysctl
// reaches def_rt_bandwidth only (sched_rt_do_global, up to Linux 6.11).
func budgets(units []profile.Unit, h Host) []Setting {
	own := map[string]int64{}
	var rows []Setting
	for _, u := range units {
		if u.RTBudget == 0 {
			continue
		}
		row := Setting{
			Knob: UnitBudget, Instance: u.Name, Want: span(u.RTBudget), Write: strconv.FormatInt(u.RTBudget, 10),
			Class: knob.Exact, Risk: knob.High, Phase: knob.Budgets,
		}
		group := h.Facts.CPUGroups[u.Name]
		if row.Support, row.Why, row.Stopped = budgeted(u, group, h); row.Support != knob.Settable {
			rows = append(rows, row)
			continue
		}
		for at := group; at != h.Facts.CPU; at = path.Dir(at) {
			own[at] = max(own[at], 0)
		}
		own[group] = u.RTBudget
	}
	want := needed(own, h)
	for _, group := range slices.Sorted(maps.Keys(own)) {
		row := budget(group, want, h)
		if own[group] > 0 && row.Support == knob.Settable {
			row.Why = ends
		}
		rows = append(rows, row)
	}
	return rows
}

// budgeted returns whether the group of a unit can have a budget, and otherwise why not, as runs does.
func budgeted(u profile.Unit, group string, h Host) (support knob.Support, why string, stopped bool) {
	switch {
	case !h.Facts.HasUnit(u.Name):
	case h.Facts.RTGroups && h.Facts.Unified != "":
		return knob.Absent, noBudget, false
	case h.Facts.Unified != "":
		return knob.Absent, "cgroup v2 has no budget for real-time threads: policy fifo and rr need none here", false
	case group != "" && h.Files[group+"/"+budgetFile] == "":
		return knob.Absent, "this kernel has no " + budgetFile + " (CONFIG_RT_GROUP_SCHED): policy fifo and rr need no budget here", false
	}
	return runs(u, group, h, true)
}

// BudgetFor returns the budget for real-time threads of a group of the CPU controller's own hierarchy: at least now, its
// budget on record, and what its children need. top is the root group. recorded are the budgets on record of units and
// of the groups above them, by group; a group that does not exist counts as a child. texts reads the files of a pattern.
// All budgets are in microseconds of each second. fits is false if the root group has less than all groups need; the
// children then do not count.
func BudgetFor(group, top, now string, recorded map[string]string, texts func(pattern string) map[string]string) (budget string, fits bool) {
	h := Host{Facts: knob.Facts{CPU: top}, Files: map[string]string{}}
	own := map[string]int64{}
	for at, text := range recorded {
		own[at] = micros(text)
		for _, file := range budgetFiles(at, top) {
			maps.Copy(h.Files, texts(file))
		}
	}
	need, most := needed(own, h), micros(h.Files[top+"/"+budgetFile])
	fits = most < 0 || need[top] <= most
	want := micros(now)
	switch {
	case want < 0: // no limit
	case fits:
		want = max(want, need[group])
	default:
		want = max(want, own[group])
	}
	return strconv.FormatInt(want, 10), fits
}

// needed returns what each of these groups needs: at least its present budget, its own desired budget, and the sum of
// its direct children, which the kernel adds up. For the root group it is only the sum.
func needed(own map[string]int64, h Host) map[string]int64 {
	want := map[string]int64{}
	for file, text := range h.Files {
		group := path.Dir(file)
		if _, ours := own[group]; !ours && path.Base(file) == budgetFile && group != h.Facts.CPU {
			want[path.Dir(group)] += ofSecond(micros(text), h.Files[group+"/"+periodFile])
		}
	}
	for _, group := range slices.Backward(slices.Sorted(maps.Keys(own))) { // children before parents
		now := micros(h.Files[group+"/"+budgetFile])
		if want[group] = max(want[group], own[group], now); now < 0 { // no limit
			want[group] = now
		}
		want[path.Dir(group)] += ofSecond(want[group], h.Files[group+"/"+periodFile])
	}
	return want
}

// ofSecond returns a budget's part of a second; a budget without a limit is the whole second (to_ratio in
// kernel/sched/core.c).
func ofSecond(budget int64, period string) int64 {
	of := micros(period)
	switch {
	case budget < 0:
		return second
	case of <= 0: // not known
		return budget
	}
	return (budget*second + of - 1) / of
}

// micros parses the text of a budget's file, and returns 0 if it cannot.
func micros(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func budget(group string, need map[string]int64, h Host) Setting {
	want := need[group]
	row := Setting{
		Knob: UnitBudget, Instance: path.Base(group), File: group + "/" + budgetFile, Now: BudgetText(h.Files[group+"/"+budgetFile]),
		Want: span(want), Write: strconv.FormatInt(want, 10), Support: knob.Settable, Class: knob.Exact, Risk: knob.High, Phase: knob.Budgets,
	}
	top, period, together := h.Files[h.Facts.CPU+"/"+budgetFile], h.Files[group+"/"+periodFile], need[h.Facts.CPU]
	all, err := strconv.ParseInt(top, 10, 64)
	switch {
	case period != "" && period != strconv.Itoa(second):
		row.Support, row.Why = knob.ReadOnly, fmt.Sprintf("%s of %s is %s, and not a second", periodFile, strings.TrimPrefix(group, h.Facts.CPU+"/"), period)
	case err == nil && all >= 0 && together > all && !row.Stands():
		row.Support = knob.ReadOnly
		row.Why = fmt.Sprintf("all groups together need %s, and %s of the root group is %s", span(together), budgetFile, BudgetText(top))
	}
	return row
}

func span(micros int64) string { return BudgetText(strconv.FormatInt(micros, 10)) }

// BudgetText returns the text of a budget's file in the words of a profile.
func BudgetText(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return text
	}
	return knob.Span(n * int64(time.Microsecond))
}

// budgetFiles returns the files that a plan needs of the groups above a unit, and of the direct children of these
// groups.
func budgetFiles(group, top string) []string {
	files := []string{top + "/" + budgetFile}
	for at := group; at != top; at = path.Dir(at) {
		files = append(files, path.Dir(at)+"/*/"+budgetFile, path.Dir(at)+"/*/"+periodFile)
	}
	return files
}
