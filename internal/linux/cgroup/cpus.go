package cgroup

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// places names the files of a knob's lists.
type places struct {
	v1, v1Effective string // v1Effective is since Linux 3.17
	v2, v2Effective string
	// online lists what is online on the machine, possible what the machine may ever have.
	online, possible string
}

func placesOf(k Knob) places {
	if k == KnobMems {
		return places{
			v1: "cpuset.mems", v1Effective: "cpuset.effective_mems",
			v2: "cpuset.mems", v2Effective: "cpuset.mems.effective",
			online: nodesFile, possible: "sys/devices/system/node/possible",
		}
	}
	return places{
		v1: "cpuset.cpus", v1Effective: "cpuset.effective_cpus",
		v2: "cpuset.cpus", v2Effective: "cpuset.cpus.effective",
		online: onlineFile, possible: "sys/devices/system/cpu/possible",
	}
}

const (
	onlineFile = "sys/devices/system/cpu/online"
	nodesFile  = "sys/devices/system/node/online"
)

// EffectiveCPUs returns the CPUs that the group's processes may run on.
//
// On v2 it reads cpuset.cpus.effective of the group, or of the nearest group above that has the controller. On v1 it
// reads cpuset.effective_cpus. If the cpuset hierarchy lacks the group, its processes may be anywhere in that
// hierarchy, so the result is all CPUs of its root. Without a cpuset hierarchy the result is all online CPUs.
// Affinities that threads set for themselves are ignored.
//
// The errors are those of Has, except for a controller that is not enabled.
func (g *Group) EffectiveCPUs() (cpuset.Set, error) { return g.Effective(KnobCPUs) }

// EffectiveMems returns the memory nodes that the group's processes get pages from, determined as EffectiveCPUs
// determines the CPUs. A machine without NUMA has only node 0.
func (g *Group) EffectiveMems() (cpuset.Set, error) { return g.Effective(KnobMems) }

// Effective is EffectiveCPUs for KnobCPUs and EffectiveMems for KnobMems. If the group's own file has the answer, the
// cost is one read of a file kept open. For any other knob the error is ErrNoKnob.
func (g *Group) Effective(k Knob) (cpuset.Set, error) {
	if !k.isList() {
		return cpuset.Set{}, fmt.Errorf("%w: knob %q has no effective list", ErrNoKnob, string(k))
	}
	set, err := g.polled(k)
	if errors.Is(err, errNotPolled) {
		set, err = g.effective(k)
	}
	if vanished(err) {
		err = fmt.Errorf("%w %q: %w", ErrNoGroup, g.path, err)
	}
	return set, err
}

// errNotPolled means that the group's own file gives no answer: it is missing, or longer than the buffer. The slow path
// then finds the answer or the reason.
var errNotPolled = errors.New("not polled")

// polled reads the group's own file, which stays open because agents read it every second.
func (g *Group) polled(k Knob) (cpuset.Set, error) {
	hier, err := g.host.Hierarchy(CPUSet)
	if err != nil {
		return cpuset.Set{}, errNotPolled
	}
	name := placesOf(k).v1Effective
	if hier.Version == 2 {
		name = placesOf(k).v2Effective
	}
	data, err := g.read(CPUSet, name)
	if err != nil || len(data) >= bufferSize-1 {
		return cpuset.Set{}, errNotPolled
	}
	set, err := cpuset.Parse(string(data))
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("effective list of %s, %s: %w: %w", g.path, name, ErrMalformed, err)
	}
	return set, nil
}

func (g *Group) effective(k Knob) (cpuset.Set, error) {
	hier, err := g.host.Hierarchy(CPUSet)
	if err != nil {
		return g.host.all(k)
	}
	if hier.Version == 2 {
		return g.effectiveV2(k, hier)
	}
	dir, err := g.Dir(CPUSet)
	if err != nil {
		return g.host.effectiveV1(k, hier.Mount)
	}
	if err := dir.Alive(); err != nil {
		return cpuset.Set{}, g.missing(CPUSet, err)
	}
	return g.host.effectiveV1(k, hier.Mount+"/"+g.path)
}

func (h *Host) effectiveV1(k Knob, dir string) (cpuset.Set, error) {
	set, err := h.readList(dir + "/" + placesOf(k).v1Effective)
	if errors.Is(err, fs.ErrNotExist) { // before Linux 3.17, and in containers that mask it
		return h.readList(dir + "/" + placesOf(k).v1)
	}
	return set, err
}

func (g *Group) effectiveV2(k Knob, hier Hierarchy) (cpuset.Set, error) {
	if dir, err := g.Dir(CPUSet); err != nil {
		return cpuset.Set{}, err
	} else if err := dir.Alive(); err != nil {
		return cpuset.Set{}, g.missing(CPUSet, err)
	}
	for _, path := range append(append([]string{g.path}, g.Ancestors()...), "") {
		set, err := g.host.readList(hier.Mount + "/" + path + "/" + placesOf(k).v2Effective)
		if !errors.Is(err, fs.ErrNotExist) {
			return set, err
		}
	}
	return g.host.all(k)
}

// all returns every CPU or memory node that is online.
func (h *Host) all(k Knob) (cpuset.Set, error) {
	set, err := h.readList(placesOf(k).online)
	if k == KnobMems && errors.Is(err, fs.ErrNotExist) {
		return cpuset.Of(0)
	}
	return set, err
}

// readList reads a list of CPUs or memory nodes.
func (h *Host) readList(name string) (cpuset.Set, error) {
	data, err := h.root.ReadFile(name)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("read list: %w", err)
	}
	set, err := cpuset.Parse(string(data))
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("list in %s: %w: %w", h.root.Join(name), ErrMalformed, err)
	}
	return set, nil
}
