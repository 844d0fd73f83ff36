package nri

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

// ValidateContainerAdjustment receives what all plugins together are about to change, with the owner of each change. It
// rejects nothing: it reports CPUs and memory nodes that other plugins set.
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

// ownerOfSets returns the plugin that set the CPUs or memory nodes of a container, "" if that is self or no plugin.
func ownerOfSets(fields *api.FieldOwners, self string) string {
	for _, field := range []api.Field{api.Field_CPUSetCPUs, api.Field_CPUSetMems} {
		if owner := fields.GetSimple()[field.Key()]; owner != "" && owner != self {
			return owner
		}
	}
	return ""
}
