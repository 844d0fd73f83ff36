package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
)

const formatNodeTopology = "nodetopology"

func topologyFormats() []string {
	return []string{"tree", "table", "json", "yaml", formatSVG, formatNodeTopology}
}

// objectFlags are the fields of a NodeTopology beyond the machine.
type objectFlags struct {
	name     string
	reserved []string
}

func (o *objectFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&o.name, "name", "", "with -o nodetopology: the name of the cluster's `NODE`")
	fs.StringArrayVar(&o.reserved, "reserved", nil, "with -o nodetopology: CPUs that the kubelet keeps for the system, a `LIST`; may be repeated")
}

func (o *objectFlags) check(cmd *cobra.Command, format string) error {
	if format != formatNodeTopology {
		return refuseFlags(cmd, "only allowed with --output "+formatNodeTopology, "name", "reserved")
	}
	if cmd.Flags().Changed("capture") {
		return usageError(fmt.Errorf("--capture and --output %s: allowed: one of them", formatNodeTopology))
	}
	if o.name == "" {
		return usageError(fmt.Errorf("--name: missing: allowed: with --output %s the name of the node", formatNodeTopology))
	}
	if wrong := validation.IsDNS1123Subdomain(o.name); len(wrong) > 0 {
		return usageError(fmt.Errorf("--name %q: allowed: the name of a node: %s", o.name, wrong[0]))
	}
	return nil
}

// print writes the object as the node's agent would publish it. It omits the status, which only the agent knows.
func (o *objectFlags) print(w io.Writer, t *topology.Topology) error {
	reserved, err := cpuFlags("reserved", o.reserved, t.CPUs())
	if err != nil {
		return err
	}
	described := *t
	described.Reserved = t.Reserved.Union(reserved)
	return encode(w, "yaml", struct {
		APIVersion string                    `json:"apiVersion"`
		Kind       string                    `json:"kind"`
		Metadata   map[string]string         `json:"metadata"`
		Spec       v1alpha1.NodeTopologySpec `json:"spec"`
	}{v1alpha1.APIVersion, v1alpha1.KindNodeTopology, map[string]string{"name": o.name}, described.Spec()})
}
