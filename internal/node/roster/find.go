package roster

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

// soleEvery is how often the processes of a workload named by pids are compared with its group: the workload loses a
// group that another process is in.
const soleEvery = 5 * time.Second

// Entry is one workload and, once it was found, its group. Only the Roster changes it.
type Entry struct {
	// Workload is another value after each Adopt, and the value itself never changes.
	Workload *workload.Workload
	Warnings []string
	// Group is open and claimed. It is nil while the group is not known: Reason says why.
	Group  *cgroup.Group
	Reason string
	// ID identifies the Group in the hierarchy of the cpu controller.
	ID hostfs.ID

	// locatedAt is when the group was last looked up.
	locatedAt time.Duration
}

// Find finds the group of every workload that names one, and releases the groups that workloads may no longer have. If
// two workloads name one group, the workload that already has it keeps it.
func (r *Roster) Find(now time.Duration) {
	paths, claims := r.claims(now)
	for i, e := range r.entries {
		switch path := paths[i]; {
		case path == "":
		case claims[path] > 1 && e.Group == nil && r.held[e.Workload.Name] != path:
			r.Release(e, fmt.Sprintf("group %s: %v", path, ErrShared))
		case e.Group == nil:
			if err := r.open(e, path); err != nil {
				r.Release(e, err.Error())
			}
		}
	}
	if len(r.entries) > 0 {
		r.held = nil
	}
}

// claims returns the path of each workload's group, "" for none, and how many workloads name each path.
func (r *Roster) claims(now time.Duration) (paths []string, claims map[string]int) {
	paths, claims = make([]string, len(r.entries)), map[string]int{}
	for i, e := range r.entries {
		if e.Group != nil {
			e.Reason = "" // the group was found in an earlier round
		}
		path, err := r.locate(e, now)
		if err != nil {
			r.Release(e, err.Error())
			continue
		}
		paths[i] = path
		claims[path]++
		if e.Group != nil && e.Group.Path() != path {
			r.drop(e, "its group changes") // before any group is opened: two workloads may have swapped groups
		}
	}
	return paths, claims
}

// locate returns the path of a workload's group. It repeats expensive lookups only while the path is unknown or may
// have changed.
func (r *Roster) locate(e *Entry, now time.Duration) (string, error) {
	w := e.Workload
	if w.Cgroup != "" {
		return w.Cgroup, nil
	}
	if w.Stopped() {
		return "", ErrEnded
	}
	if e.Group != nil && now < e.locatedAt+soleEvery {
		return e.Group.Path(), nil
	}
	e.locatedAt = now
	if err := r.sameProcesses(w); err != nil {
		return "", err
	}
	path, err := Locate(r.opts.Host, w)
	if err == nil && (path == "" || path == "/" || path == ".") {
		err = ErrRoot
	}
	return path, err
}

// sameProcesses refuses a pid that the kernel gave to another process since the workload was first found: the new
// process did not opt in.
func (r *Roster) sameProcesses(w *workload.Workload) error {
	for _, pid := range w.PIDs {
		start, err := r.opts.Host.ProcessStart(pid)
		if err != nil {
			return fmt.Errorf("pids %v: %w", w.PIDs, err)
		}
		if first, known := r.started[w.Name][pid]; known && first != start {
			return fmt.Errorf("pids %v: %w: %d", w.PIDs, ErrOther, pid)
		}
		if r.started[w.Name] == nil {
			r.started[w.Name] = map[int]uint64{}
		}
		r.started[w.Name][pid] = start
	}
	return nil
}

// Locate returns the path of the group that a workload names: by path, by its unit, or by its processes, which must
// have a group to themselves.
func Locate(host *cgroup.Host, w *workload.Workload) (string, error) {
	if w.Cgroup != "" {
		return w.Cgroup, nil
	}
	if w.Unit != "" {
		path, err := host.UnitPath(w.Unit)
		if err != nil {
			return "", fmt.Errorf("systemdUnit %s: %w", w.Unit, err)
		}
		return path, nil
	}
	path, err := host.SoleGroup(w.PIDs)
	if err != nil {
		return "", fmt.Errorf("pids %v: %w", w.PIDs, err)
	}
	return path, nil
}

// open opens the group at path and claims it.
func (r *Roster) open(e *Entry, path string) error {
	group, err := r.opts.Host.Group(path)
	if err != nil {
		return err
	}
	if err := group.Claim(); err != nil {
		return errors.Join(fmt.Errorf("claim group: %w", err), group.Close())
	}
	id, err := group.ID(cgroup.CPU)
	if err != nil {
		return errors.Join(fmt.Errorf("identify group: %w", err), group.Close())
	}
	e.Group, e.ID = group, id
	r.changes++
	return nil
}
