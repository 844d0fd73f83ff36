package arbiter

import "github.com/berth-project/berth/api/v1alpha1"

// Reasons of News, which are those of events.
const (
	// CPUPinned says that a pod's containers run on CPUs of their own.
	CPUPinned = "CPUPinned"
	// CPUPinFailed says that a pod has fewer, or other, CPUs than it should.
	CPUPinFailed = "CPUPinFailed"
	// PlacementRefused says that a pod does not get the CPUs of its placement, or
	// none at all.
	PlacementRefused = "PlacementRefused"
	// SharedPoolOvercommitted says that containers without CPUs of their own
	// request more than the CPUs that are left to them. It is about the node.
	SharedPoolOvercommitted = "SharedPoolOvercommitted"
	// InvalidPolicy says that a key of a pod cannot be read, or changed too late.
	InvalidPolicy = "InvalidPolicy"
)

// News is what is to be told, once.
type News struct {
	// PodUID is empty for news about the node.
	PodUID string
	// Reason is one of the constants, or empty where there is only an annotation
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
