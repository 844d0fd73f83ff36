package pin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/workload"
)

// errStarting is the answer to the runtime about containers that ask for exclusive
// CPUs while it is not known yet whether Berth may give them any.
var errStarting = errors.New("the agent is starting")

// MustAnswer says that a container must not be made without an answer: its pod asks
// for exclusive CPUs, and would run on those of others.
func MustAnswer(e nri.Event) bool {
	return e.Kind == nri.Create && workload.MayPin(e.Pod.Labels, e.Pod.Annotations)
}

// Answer decides what to answer the runtime, and journals what it is about to write.
// Without final the answer about a pod that is not known yet is inventory.ErrUnknownPod, and
// nothing changed.
func (s *Sets) Answer(e nri.Event, final bool) (nri.Reply, error) {
	if MustAnswer(e) && !s.kubelet.Known() {
		return nri.Reply{}, errStarting
	}
	a, err := s.inventory.Handle(e, final)
	if err != nil {
		return nri.Reply{}, err
	}
	if e.Kind == nri.Create || e.Kind == nri.Update {
		inventory.Renew(s.inventory, &a, e, s.asked.containers)
	}
	s.touch(e)
	if e.Kind == nri.Start || e.Kind == nri.PostUpdate {
		s.overtaken(e.Container.CgroupPath)
	}
	if err := s.takeSelf(&a); err != nil {
		s.opts.Fail(ownCPUs, err)
	}
	if err := s.record(a.Changes); err != nil {
		s.opts.Fail("journal", err)
		return nri.Reply{}, fmt.Errorf("answer the runtime: %w", err)
	}
	if err := s.opts.Answers.Save(e, a.Reply, s.inventory.Answers); err != nil {
		s.opts.Fail("answers to the runtime", err) // it gets its CPUs all the same
	}
	return a.Reply, nil
}

// overtaken takes a container that is about to run off CPUs that another one was given
// after it was created: the runtime, which was asked to move it then, did not know it yet.
// The container may itself have other exclusive CPUs by now. So is one that was updated: the runtime
// answers others between asking what to write and writing it.
func (s *Sets) overtaken(group string) {
	if group == "" || !s.known() || s.self.Is(group) {
		return
	}
	d, found := s.inventory.DesiredIn(group)
	if !found || s.opts.Groups.EffectiveCPUs(group).IsSubsetOf(d.CPUs) {
		return
	}
	if !d.Mems.IsEmpty() { // the next round narrows them, where that is right
		d.Mems = d.Mems.Union(s.opts.Groups.EffectiveMems(group))
	}
	if s.reconciler.Urgent(group, d.Settings()) {
		s.opts.Awaited(group)
	}
}

// touch has the groups looked at that the runtime, or the kubelet, writes around an
// event.
func (s *Sets) touch(e nri.Event) {
	switch e.Kind {
	case nri.Start, nri.PostStart, nri.Update, nri.PostUpdate:
		s.reconciler.Touch(e.Pod.CgroupParent)
		s.reconciler.Touch(e.Container.CgroupPath)
	default:
	}
}

// takeSelf takes what concerns the agent's own group out of what the runtime is
// about to write, and does it here.
func (s *Sets) takeSelf(a *inventory.Answer) error {
	at := slices.IndexFunc(a.Changes, func(d place.Desired) bool { return s.self.Is(d.Group) })
	if at < 0 {
		return nil
	}
	own := a.Changes[at]
	a.Changes = slices.Delete(a.Changes, at, at+1)
	a.Reply.Updates = slices.DeleteFunc(a.Reply.Updates, func(u nri.Change) bool { return u.ContainerID == own.ContainerID })
	s.self.CPUs = own.CPUs
	return s.self.Shrink(s.online)
}

// record journals what the runtime is about to write.
func (s *Sets) record(changes []place.Desired) error {
	if len(changes) == 0 {
		return nil
	}
	var all []plan.Desired
	for _, d := range changes {
		all = append(all, d.Settings()...)
	}
	return s.reconciler.Record(all)
}
