package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// ErrNoTopologies means that the API server does not know the kind NodeTopology: Berth is not installed in the cluster.
var ErrNoTopologies = errors.New("the API server knows no nodetopologies." + v1alpha1.GroupName +
	": install Berth's custom resource definitions, and its agent on the nodes")

// Running selects the pods that hold resources.
const Running = "status.phase!=Succeeded,status.phase!=Failed"

// Observe reads a live cluster: its nodes, NodeTopologies and pods, and the Leases of the agents, with one list request
// each. A cluster without the kind NodeTopology is ErrNoTopologies.
func Observe(ctx context.Context, cfg *rest.Config) (Objects, error) {
	client, err := apiclient.NewCore(cfg)
	if err != nil {
		return Objects{}, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	nodes, err := client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return Objects{}, fmt.Errorf("list nodes of %s: %w", cfg.Host, err)
	}
	topologies, err := listTopologies(ctx, cfg)
	if err != nil {
		return Objects{}, fmt.Errorf("list nodetopologies of %s: %w", cfg.Host, err)
	}
	agents, err := listAgents(ctx, cfg)
	if err != nil {
		return Objects{}, fmt.Errorf("list leases of %s: %w", cfg.Host, err)
	}
	pods, err := client.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: Running})
	if err != nil {
		return Objects{}, fmt.Errorf("list pods of %s: %w", cfg.Host, err)
	}
	o := Live(nodes.Items, topologies, agents)
	for i := range pods.Items {
		o.Pods = append(o.Pods, Pod{Pod: &pods.Items[i]})
	}
	return o, nil
}

// Live returns the objects of a cluster without its pods. It drops a NodeTopology whose Node is gone.
func Live(nodes []v1.Node, topologies []v1alpha1.NodeTopology, agents Agents) Objects {
	names := map[string]bool{}
	for i := range nodes {
		names[nodes[i].Name] = true
	}
	topologies = slices.DeleteFunc(topologies, func(t v1alpha1.NodeTopology) bool { return !names[t.Name] })
	return Objects{Nodes: nodes, Topologies: topologies, Agents: agents}
}

func listTopologies(ctx context.Context, cfg *rest.Config) ([]v1alpha1.NodeTopology, error) {
	client, err := apiclient.NewTopologies(cfg)
	if err != nil {
		return nil, err
	}
	list, err := client.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, ErrNoTopologies
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
