package place

import "github.com/berth-project/berth/api/v1alpha1"

// Event is one thing to report about a pod or the node: an event, an annotation to write or to remove, or both.
type Event struct {
	// PodUID is empty for an event about the node.
	PodUID string
	// Reason is empty if there is only an annotation to write or to remove.
	Reason string
	// Text is one or more sentences.
	Text string
	// Warning marks a problem, unlike a normal event.
	Warning bool
	// Unpinnable says that the pod was refused for a reason of the whole node: Berth pins nothing here.
	Unpinnable bool
	// Annotation is the placement to write to the pod, or nil.
	Annotation *v1alpha1.Placement
	// Answered says that the move that the pod asks for is over: its annotation must become Refused, or be removed if
	// Refused is nil.
	Answered bool
	Refused  *v1alpha1.Move
	// Unplaced says that the pod's placement must be removed: the pod has none of its CPUs.
	Unplaced bool
}
