package pin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/assignment"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/nri"
)

// errStarting is the answer to the runtime about containers that ask for exclusive CPUs while it is unknown whether
// Berth may give them any.
var errStarting = errors.New("the agent is starting")

// MustAnswer reports whether a container must not be made without an answer: its pod asks for exclusive CPUs, and would
// run on the CPUs of other pods.
func MustAnswer(e nri.Event) bool {
	return e.Kind == nri.Create && workload.MayPin(e.Pod.Labels, e.Pod.Annotations)
}

// Answer decides the answer to the runtime, and journals what the runtime is about to write. Without final, Answer
// returns inventory.ErrUnknownPod for an unknown pod, and changes nothing.
func (s *Sets) Answer(e nri.Event, final bool) (nri.Reply, error) {
	if MustAnswer(e) && !s.opts.Hardware.Kubelet.Known() {
		return nri.Reply{}, errStarting
	}
	a, err := s.assignment.Handle(e, final)
	if err != nil {
		return nri.Reply{}, err
	}
	if e.Kind == nri.Create || e.Kind == nri.Update {
		s.assignment.Renew(&a, e, s.asked.containers)
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
	if err := s.opts.Answers.Save(e, a.Reply, s.inventory.Containers().Answers); err != nil {
		s.opts.Fail("answers to the runtime", err) // the container still gets its CPUs
	}
	return a.Reply, nil
}

// overtaken moves a container that is about to run off CPUs that another container got after it was created. The
// runtime was asked to move it then, and did not know it yet. By now the container may have other exclusive CPUs
// itself. An updated container has the same problem: the runtime may answer other requests between its question and its
// write.
func (s *Sets) overtaken(group string) {
	if group == "" || !s.known() || s.self.Is(group) {
		return
	}
	d, found := s.assignment.DesiredIn(group)
	if !found || s.opts.Groups.EffectiveCPUs(group).IsSubsetOf(d.CPUs) {
		return
	}
	if !d.Mems.IsEmpty() { // the next round restricts them, if that is right
		d.Mems = d.Mems.Union(s.opts.Groups.EffectiveMems(group))
	}
	s.opts.Reconciler.Urgent(group, d.Settings())
}

// touch has the next pass check the groups that the runtime, or the kubelet, writes around an event.
func (s *Sets) touch(e nri.Event) {
	switch e.Kind {
	case nri.Start, nri.PostStart, nri.Update, nri.PostUpdate:
		s.touched = append(s.touched, e.Pod.CgroupParent, e.Container.CgroupPath)
	default:
	}
}

// takeSelf removes changes of the agent's own group from the answer to the runtime, and applies them here.
func (s *Sets) takeSelf(a *assignment.Answer) error {
	at := slices.IndexFunc(a.Changes, func(d place.Desired) bool { return s.self.Is(d.Group) })
	if at < 0 {
		return nil
	}
	own := a.Changes[at]
	a.Changes = slices.Delete(a.Changes, at, at+1)
	a.Reply.Updates = slices.DeleteFunc(a.Reply.Updates, func(u nri.Change) bool { return u.ContainerID == own.ContainerID })
	s.self.CPUs = own.CPUs
	return s.self.Shrink(s.opts.Hardware.CPUs.Online)
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
	return s.opts.Reconciler.Record(all)
}
