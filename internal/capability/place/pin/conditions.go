package pin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/observed"
)

// AddConditions adds whether Berth sets CPU sets here. The message of the condition has the lasting side effects of the
// reconciler's writes on this host, and doubts about its memory.
func (s *Sets) AddConditions(status *v1alpha1.NodeTopologyStatus) {
	switch o := s.inventory.Obstacle(); o.Reason {
	case "":
		said := slices.DeleteFunc([]string{s.opts.Hardware.Kubelet.MemsOwner(), s.found.Limits, s.opts.Hardware.Machine.Doubt()}, func(text string) bool { return text == "" })
		status.SetCondition(v1alpha1.ConditionPinnable, true, "Working", strings.Join(said, "; "))
	case observed.Restoring:
		s.addRestoring(status, o)
	case observed.NoTopology:
		text := o.Message
		if err := s.opts.Hardware.Unread; err != nil {
			text += ": " + err.Error()
		}
		status.SetCondition(v1alpha1.ConditionPinnable, false, o.Reason, text)
	default:
		status.SetCondition(v1alpha1.ConditionPinnable, false, o.Reason, o.Message)
	}
}

// addRestoring adds the progress of restoring everything.
func (s *Sets) addRestoring(status *v1alpha1.NodeTopologyStatus, o observed.Obstacle) {
	standing := s.opts.Reconciler.Standing()
	ours := max(standing.Ours, len(s.asked.settings)) // desired settings are still to be journaled, then restored
	awaited, doubt := inventory.Unrestored(s.inventory)
	if ours > 0 {
		awaited = fmt.Sprintf("values that are not back yet: %d", ours)
	}
	if awaited != "" {
		status.SetCondition(v1alpha1.ConditionPinnable, false, o.Reason, o.Message+": "+awaited)
		return
	}
	text := o.Message + ": every original value is back"
	if standing.Others > 0 {
		text += fmt.Sprintf("; values that other programs wrote stay: %d", standing.Others)
	}
	if doubt != "" {
		text += "; " + doubt
	}
	status.SetCondition(v1alpha1.ConditionPinnable, false, v1alpha1.PinnableRestored, text)
}
