package nri

import (
	"context"
	"slices"

	"github.com/containerd/nri/pkg/api"
)

// ValidateContainerAdjustment is shown what all plugins together are about to
// change, and whose each change is. It rejects nothing: it tells of CPUs and
// memory nodes that others set.
func (s *service) ValidateContainerAdjustment(ctx context.Context, r *api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
	accepted := &api.ValidateContainerAdjustmentResponse{}
	self := s.plugin.opts.Index + "-" + s.plugin.opts.Name
	given := map[string]*api.LinuxResources{r.GetContainer().GetId(): r.GetAdjust().GetLinux().GetResources()}
	for _, update := range r.GetUpdate() {
		given[update.GetContainerId()] = update.GetLinux().GetResources()
	}
	for id, fields := range r.GetOwners().GetOwners() {
		owner := ownerOfSets(fields, self)
		if owner == "" {
			continue
		}
		e := Event{Kind: Foreign, Owner: owner, Requested: s.plugin.resources(given[id]), Container: Container{ID: id}}
		if id == r.GetContainer().GetId() {
			e = s.event(Foreign, r.GetPod(), r.GetContainer())
			e.Owner, e.Requested = owner, s.plugin.resources(given[id])
		}
		if _, err := s.ask(ctx, e); err != nil {
			return accepted, nil //nolint:nilerr // the connection ends, and with it the next event
		}
	}
	return accepted, nil
}

// ownerOfSets returns the plugin that set the CPUs or memory nodes of a
// container, "" when it is self or nobody.
func ownerOfSets(fields *api.FieldOwners, self string) string {
	for _, field := range []api.Field{api.Field_CPUSetCPUs, api.Field_CPUSetMems} {
		if owner := fields.GetSimple()[field.Key()]; owner != "" && owner != self {
			return owner
		}
	}
	return ""
}

// overruled returns a Foreign event for a container that was made with other
// CPUs or memory nodes than the handler asked for.
func (s *service) overruled(e Event) (Event, bool) {
	if e.Kind != PostCreate {
		return Event{}, false
	}
	s.mu.Lock()
	asked := s.asked[e.Container.ID]
	delete(s.asked, e.Container.ID)
	s.mu.Unlock()
	got := e.Container.Resources
	if len(asked) == 0 || slices.ContainsFunc(asked, func(one Settings) bool { return one.holdsFor(got) }) {
		return Event{}, false
	}
	return Event{Kind: Foreign, Pod: e.Pod, Container: e.Container, Requested: got}, true
}

// holdsFor says whether a container has what was asked for, as far as either says.
func (s Settings) holdsFor(got Resources) bool {
	return (s.CPUs.IsEmpty() || got.CPUs.IsEmpty() || got.CPUs == s.CPUs) &&
		(s.Mems.IsEmpty() || got.Mems.IsEmpty() || got.Mems == s.Mems)
}

// updates are what a reply changes in other containers. One that was answered and is
// not made yet may have either by then.
func (s *service) updates(r Reply) []*api.ContainerUpdate {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range r.Updates {
		if before := s.asked[u.ContainerID]; len(before) > 0 {
			s.asked[u.ContainerID] = append(before, u.over(before[len(before)-1]))
		}
	}
	return r.updates()
}

// over completes settings by those before.
func (s Settings) over(before Settings) Settings {
	if s.CPUs.IsEmpty() {
		s.CPUs = before.CPUs
	}
	if s.Mems.IsEmpty() {
		s.Mems = before.Mems
	}
	return s
}

// forget drops what was asked for a container that will not be made.
func (s *service) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, id)
}
