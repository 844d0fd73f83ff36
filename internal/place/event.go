package place

import "github.com/berth-project/berth/api/v1alpha1"

// Event is what to report about a pod or the node, once: an event, an annotation to write
// or to remove, or both.
type Event struct {
	// PodUID is empty for an event about the node.
	PodUID string
	// Reason is empty where there is only an annotation to write or to remove.
	Reason string
	// Text is one or more sentences.
	Text string
	// Warning marks a problem, unlike a normal event.
	Warning bool
	// Unpinnable says that the pod was refused for what holds for the whole node: Berth
	// pins nothing here.
	Unpinnable bool
	// Annotation is the placement to write to the pod, nil for none.
	Annotation *v1alpha1.Placement
	// Answered says that the move which the pod asks for is over: the annotation has to say
	// Refused, or where that is nil to be removed.
	Answered bool
	Refused  *v1alpha1.Move
	// Unplaced says that the placement of the pod has to be removed: the pod has none of
	// its CPUs.
	Unplaced bool
}
