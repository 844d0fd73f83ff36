package offline

import "github.com/berth-project/berth/internal/capability"

// reader prints for people what isolate reported.
type reader struct{}

// Node implements capability.Reader.
func (reader) Node(capability.Reported) (capability.NodeView, error) {
	return capability.NodeView{}, nil
}

// Workload implements capability.Reader.
func (reader) Workload(capability.Reported) (capability.WorkloadView, error) {
	return capability.WorkloadView{}, nil
}
