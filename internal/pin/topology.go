package pin

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/place"
)

// Topology is the node as it is published, by a snapshot of the inventory: not known before
// the machine was read. The caller adds what else is known, and the conditions.
func (s *Sets) Topology(snapshot place.Snapshot) (spec v1alpha1.NodeTopologySpec, status v1alpha1.NodeTopologyStatus, known bool) {
	if s.machine.Topology == nil {
		return spec, status, false
	}
	spec, status = s.machine.Report(snapshot)
	status.KubeletCPUManagerPolicy = s.kubelet.Config.CPUManagerPolicy
	return spec, status, true
}

// AddConditions adds whether Berth sets CPU sets here, and whether the shared pool is too
// small. limits says which side effects of its writes last on this host, "" for none.
func (s *Sets) AddConditions(status *v1alpha1.NodeTopologyStatus, snapshot place.Snapshot, limits string) {
	if o := s.inventory.Obstacle(); o.Reason == "" {
		said := slices.DeleteFunc([]string{s.kubelet.MemsOwner(), limits}, func(text string) bool { return text == "" })
		status.SetCondition(v1alpha1.ConditionPinnable, true, "Working", strings.Join(said, "; "))
	} else {
		status.SetCondition(v1alpha1.ConditionPinnable, false, o.Reason, o.Message)
	}
	reason := "Enough"
	if snapshot.Overcommitted {
		reason = "TooMuchRequested"
	}
	status.SetCondition(v1alpha1.ConditionSharedPoolOvercommitted, snapshot.Overcommitted, reason, snapshot.OvercommittedText)
}
