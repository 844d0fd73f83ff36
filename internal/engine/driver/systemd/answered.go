package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Answered is what Berth answered the container runtime for one container of a pod.
type Answered struct {
	Pod string
	// CPUs and Mems are the different lists. NoQuota is true if an answer removed the quota.
	CPUs, Mems []cpuset.Set
	NoQuota    bool
}

// TakenBack is the outcome for answers that systemd had on record.
type TakenBack struct {
	// Restored has a line for each value that was removed from the records, or is still there.
	Restored []apply.Restored
	// Lost are groups without a quota, since a daemon-reload came first: their original quota is unknown.
	Lost []string
	// Err is why some answers may still be on record. It matches cgroupfile.ErrNoUnits if systemd cannot be reached.
	Err error
}

// TakeBack removes answers from systemd's records that the journal does not have: an agent that does not reach systemd
// restores files, and then forgets them. Call it after the Restore of the journal. answers is keyed by container id,
// and all is an Applier with Options.Records.
func TakeBack(host *cgroup.Host, units cgroupfile.Properties, j *journal.Journal, all *apply.Applier, answers map[string]Answered) TakenBack {
	var t TakenBack
	if len(answers) == 0 {
		return t
	}
	recorded, err := t.find(host, units, answers)
	known := func(c plan.Change) bool { // Its own restoration says why it is still there.
		_, known := j.Entry(c.Target)
		return known
	}
	recorded = slices.DeleteFunc(recorded, known)
	of := make(map[plan.Target]bool, len(recorded))
	for _, c := range recorded {
		of[c.Target] = true
	}
	if failed := all.Record(recorded); failed != nil {
		t.Err = errors.Join(err, failed)
		return t
	}
	t.Restored, t.Err = all.Restore(func(e journal.Entry) bool { return of[e.Target] }, false), err
	return t
}

// find returns the answers that systemd has on record for the scopes of containers, as the changes that made them: from
// the value that a group has without them.
func (t *TakenBack) find(host *cgroup.Host, units cgroupfile.Properties, answers map[string]Answered) (changes []plan.Change, err error) {
	root, err := host.Group("", cgroup.CPU)
	if err != nil {
		return nil, fmt.Errorf("groups of containers: %w", err)
	}
	defer root.Close()
	paths, err := root.Below(cgroup.CPU)
	if err != nil {
		return nil, fmt.Errorf("groups of containers: %w", err)
	}
	var errs []error
	for _, at := range paths {
		at = strings.TrimPrefix(at, "/") // all are below the root
		a, found := answers[containerOf(at)]
		if !found {
			continue
		}
		one := answeredGroup{path: at, units: units, Answered: a}
		if err := one.look(host); err != nil && !isNowhere(err) {
			errs = append(errs, fmt.Errorf("answers on record for %q: %w", at, err))
			if errors.Is(err, cgroupfile.ErrNoUnits) {
				break // each question would wait for it
			}
		}
		changes = append(changes, one.changes...)
		if one.isLost {
			t.Lost = append(t.Lost, at)
		}
	}
	return changes, errors.Join(errs...)
}

// containerOf returns the id of the container that a runtime made a scope for, "" for another group. CRI-O also has a
// scope for the container's monitor.
func containerOf(group string) string {
	name, isScope := strings.CutSuffix(path.Base(group), ".scope")
	if !isScope || strings.Contains(name, "conmon") {
		return ""
	}
	return name[strings.LastIndexByte(name, '-')+1:]
}

// isNowhere reports whether the container ended, or has no such value.
func isNowhere(err error) bool {
	return errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, cgroup.ErrNoController) || errors.Is(err, hostfs.ErrGone) || errors.Is(err, fs.ErrNotExist)
}

// answeredGroup is the group of a container whose runtime got an answer.
type answeredGroup struct {
	path  string
	units cgroupfile.Properties
	Answered
	group   *cgroup.Group
	changes []plan.Change
	isLost  bool
}

func (a *answeredGroup) look(host *cgroup.Host) (err error) {
	if a.group, err = host.Group(a.path); err != nil {
		return err
	}
	defer a.group.Close()
	hier, err := host.Hierarchy(cgroup.CPUSet)
	if err == nil && hier.Version == 2 { // a runtime tells systemd no list on v1
		for k, lists := range map[cgroup.Knob][]cpuset.Set{cgroup.KnobCPUs: a.CPUs, cgroup.KnobMems: a.Mems} {
			if err := a.lookAtList(k, lists); err != nil {
				return err
			}
		}
	}
	if !a.NoQuota {
		return nil
	}
	return a.lookAtQuota()
}

// lookAtList adds a list. The current list is the original, unless it is an answer itself: then the group was made with
// it, or a daemon-reload brought it back.
func (a *answeredGroup) lookAtList(k cgroup.Knob, lists []cpuset.Set) error {
	answered := func(v cgroup.Value) bool {
		set, inherits, err := v.List()
		return err == nil && !inherits && slices.Contains(lists, set)
	}
	if len(lists) == 0 {
		return nil
	}
	has, recorded, err := a.units.Property(a.path, k)
	if err != nil || !recorded || !answered(has) {
		return err
	}
	original, err := a.group.Read(k)
	if err != nil {
		return err
	}
	if answered(original) || cgroup.IsUnlimited(a.group, k, original) {
		original = cgroup.Inherit
	}
	return a.add(k, original, has, plan.OwnerPool)
}

// lookAtQuota adds an answer that removed the quota.
func (a *answeredGroup) lookAtQuota() error {
	has, recorded, err := a.units.Property(a.path, cgroup.KnobMax)
	if err != nil || !recorded {
		return err
	}
	stands, err := a.group.Read(cgroup.KnobMax)
	if err != nil {
		return err
	}
	n, _, err := has.Pair()
	quota, period, malformed := stands.Pair()
	switch {
	case err != nil || malformed != nil || n >= 0:
		return errors.Join(err, malformed)
	case quota < 0:
		a.isLost = true
		return nil
	}
	return a.add(cgroup.KnobMax, stands, cgroup.MaxValue(n, period), plan.OwnerPlace)
}

func (a *answeredGroup) add(k cgroup.Knob, original, recorded cgroup.Value, owner plan.Owner) error {
	id, err := a.group.ID(k.Controller())
	if err != nil {
		return err
	}
	a.changes = append(a.changes, plan.Change{From: plan.Value(original), Setting: plan.Setting{
		Target: cgroupfile.Target(a.path, k), ID: cgroupfile.Identity(id), Value: plan.Value(recorded),
		Owner: owner, Workload: a.Pod, Why: "the container runtime was answered this",
	}})
	return nil
}
