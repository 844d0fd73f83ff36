package cgroup

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/berth-project/berth/internal/cpuset"
)

const (
	v2EffectiveFile = "cpuset.cpus.effective"
	v1EffectiveFile = "cpuset.effective_cpus"
	v1CPUsFile      = "cpuset.cpus"
	onlineFile      = "sys/devices/system/cpu/online"
)

// EffectiveCPUs returns the CPUs the group's processes may run on.
//
// On v2 it is cpuset.cpus.effective of the group, or of the nearest group
// above that has the controller. On v1 it is cpuset.effective_cpus. If the
// cpuset hierarchy lacks the group its processes may be anywhere in it, so
// the answer is all the CPUs its root has; if there is no such hierarchy, all
// online ones. Affinities that threads set for themselves are not looked at.
//
// The errors are those of Has, but for a controller that is not enabled.
func (g *Group) EffectiveCPUs() (cpuset.Set, error) {
	set, err := g.polledCPUs()
	if errors.Is(err, errNotPolled) {
		set, err = g.effective()
	}
	if vanished(err) {
		err = fmt.Errorf("%w %q: %w", ErrNoGroup, g.path, err)
	}
	return set, err
}

// errNotPolled says that the group's own file does not answer: it is not
// there, or it is longer than the buffer. The long way says why, or knows more.
var errNotPolled = errors.New("not polled")

// polledCPUs reads the group's own file, kept open: agents ask every second.
func (g *Group) polledCPUs() (cpuset.Set, error) {
	hier, err := g.host.Hierarchy(CPUSet)
	if err != nil {
		return cpuset.Set{}, errNotPolled
	}
	name := v1EffectiveFile
	if hier.Version == 2 {
		name = v2EffectiveFile
	}
	data, err := g.read(CPUSet, name)
	if err != nil || len(data) >= bufferSize-1 {
		return cpuset.Set{}, errNotPolled
	}
	set, err := cpuset.Parse(string(data))
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("effective CPUs of %s, %s: %w: %w", g.path, name, ErrMalformed, err)
	}
	return set, nil
}

func (g *Group) effective() (cpuset.Set, error) {
	hier, err := g.host.Hierarchy(CPUSet)
	if err != nil {
		return g.host.cpus(onlineFile)
	}
	if hier.Version == 2 {
		return g.effectiveV2(hier)
	}
	dir, err := g.Dir(CPUSet)
	if err != nil {
		return g.host.effectiveV1(hier.Mount)
	}
	if err := dir.Alive(); err != nil {
		return cpuset.Set{}, g.missing(CPUSet, err)
	}
	return g.host.effectiveV1(hier.Mount + "/" + g.path)
}

func (h *Host) effectiveV1(dir string) (cpuset.Set, error) {
	set, err := h.cpus(dir + "/" + v1EffectiveFile)
	if errors.Is(err, fs.ErrNotExist) { // before Linux 3.17, and in containers that mask it
		return h.cpus(dir + "/" + v1CPUsFile)
	}
	return set, err
}

func (g *Group) effectiveV2(hier Hierarchy) (cpuset.Set, error) {
	if dir, err := g.Dir(CPUSet); err != nil {
		return cpuset.Set{}, err
	} else if err := dir.Alive(); err != nil {
		return cpuset.Set{}, g.missing(CPUSet, err)
	}
	for _, path := range append(append([]string{g.path}, g.Ancestors()...), "") {
		set, err := g.host.cpus(hier.Mount + "/" + path + "/" + v2EffectiveFile)
		if !errors.Is(err, fs.ErrNotExist) {
			return set, err
		}
	}
	return g.host.cpus(onlineFile)
}

// cpus reads a CPU list.
func (h *Host) cpus(name string) (cpuset.Set, error) {
	data, err := h.root.ReadFile(name)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("effective CPUs: %w", err)
	}
	set, err := cpuset.Parse(string(data))
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("effective CPUs, %s: %w: %w", h.root.Join(name), ErrMalformed, err)
	}
	return set, nil
}
