package observed

import "github.com/berth-project/berth/api/v1alpha1"

// Policies are what administrators ask for on this node, in ConfigMaps or the agent's file. Each source says where that
// is written, "" for nowhere.
type Policies struct {
	// Threshold is how much offline work may use.
	Threshold       v1alpha1.ResourceThreshold
	ThresholdSource string
	// CPUPolicy is the means by which classes are separated.
	CPUPolicy, CPUPolicySource string
	// SharePoolPercent is the threshold of the node guard, nil for that of the agent's file.
	SharePoolPercent *int64
}
