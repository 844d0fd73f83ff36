package cli

import (
	"bytes"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
)

// machineForms are the texts that readTopology accepts.
const machineForms = "a machine made with berth topology: -o json, -o yaml, -o nodetopology or --capture"

var errNoMachineText = errors.New("no machine in it")

// readTopology reads a machine in any form that berth topology writes.
func readTopology(text []byte) (*topology.Topology, error) {
	if topology.IsRecording(text) {
		recording, err := topology.ParseRecording(text)
		if err != nil {
			return nil, err
		}
		return topology.Discover(recording)
	}
	data := text
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		var err error
		if data, err = yaml.YAMLToJSONStrict(text); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoMachineText, err)
		}
	}
	var kind struct {
		Kind string                    `json:"kind"`
		Spec v1alpha1.NodeTopologySpec `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &kind); err != nil {
		return topology.Decode(data) // with a clearer error
	}
	switch kind.Kind {
	case "":
		return topology.Decode(data)
	case v1alpha1.KindNodeTopology:
		return topology.FromSpec(kind.Spec)
	default:
		return nil, fmt.Errorf("%w: kind %q", errNoMachineText, kind.Kind)
	}
}
