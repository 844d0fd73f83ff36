package place

import "github.com/berth-project/berth/api/v1alpha1"

// News is what is to be told, once.
type News struct {
	// PodUID is empty for news about the node.
	PodUID string
	// Reason is that of the event, or empty where there is only an annotation
	// to write or to remove.
	Reason string
	// Text is one or more sentences.
	Text string
	// Warning tells a problem from a normal event.
	Warning bool
	// Annotation is the placement to write to the pod, nil for none.
	Annotation *v1alpha1.Placement
	// Unplaced says that the placement of the pod is to be removed: it has none of
	// these CPUs.
	Unplaced bool
}
