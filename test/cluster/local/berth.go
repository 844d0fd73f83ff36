package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/controlplane"
)

// shipped returns the manifests of deploy in the order of the documentation. berth-scheduler is not a Deployment here,
// because a scheduler in a pod would need another scheduler first.
func shipped() []string {
	return []string{
		"namespace.yaml", "koordinator-namespace.yaml", "crd/*.yaml", "policy/keys.yaml", "policy/placement.yaml",
		"scheduler/rbac.yaml", "scheduler/replace.yaml",
	}
}

// agentManifests is the pattern of the agent's manifests.
const agentManifests = "agent/*.yaml"

// withoutAgent, set in the environment, omits the agent, because the agent's tests start their own.
const withoutAgent = "BERTH_CLUSTER_WITHOUT_AGENT"

// read returns the manifests below deploy that match the patterns.
func read(patterns ...string) ([][]byte, error) {
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	var documents [][]byte
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(root, "deploy", filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		slices.Sort(names)
		for _, name := range names {
			document, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			documents = append(documents, document)
		}
	}
	return documents, nil
}

// install applies the manifests and reports whether they include the agent.
func install(ctx context.Context, administrator *rest.Config) (agent bool, err error) {
	documents, err := read(shipped()...)
	if err != nil {
		return false, err
	}
	var agents [][]byte
	if os.Getenv(withoutAgent) == "" {
		if agents, err = read(agentManifests); err != nil {
			return false, err
		}
	}
	return len(agents) > 0, controlplane.Apply(ctx, administrator, append(documents, agents...)...)
}

// Install applies the manifests again, for a test that removed their objects.
func (c *Cluster) Install(ctx context.Context) error {
	_, err := install(ctx, c.Config())
	return err
}

// The shipped service account.
const (
	namespace = "berth-system"
	account   = "berth-scheduler"
)

// scheduler is berth-scheduler, the only scheduler, with the shipped configuration and rights.
func scheduler(p cluster.Programs, plane *controlplane.ControlPlane) (server, error) {
	// The scheduler has a certificate for its service account, because a token would expire after a day.
	identity, err := plane.As("system:serviceaccount:"+namespace+":"+account, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	if err != nil {
		return server{}, err
	}
	kubeconfig := file("config", "berth-scheduler.kubeconfig")
	if err := controlplane.WriteKubeconfig(identity, kubeconfig); err != nil {
		return server{}, err
	}
	documents, err := read("scheduler/replace.yaml")
	if err != nil {
		return server{}, err
	}
	var shipped v1.ConfigMap
	for _, document := range documents {
		if err := yaml.Unmarshal(document, &shipped); err != nil {
			return server{}, err
		}
	}
	config := object{}
	if err := yaml.Unmarshal([]byte(shipped.Data["config.yaml"]), &config); err != nil {
		return server{}, fmt.Errorf("configuration of berth-scheduler: %w", err)
	}
	config["clientConnection"] = object{"kubeconfig": kubeconfig}
	text, err := yaml.Marshal(config)
	if err != nil {
		return server{}, err
	}
	return server{
		name: "berth-scheduler",
		argv: []string{
			p.Scheduler, "--config=" + file("config", "berth-scheduler.yaml"), "--bind-address=" + Address,
			"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig, "--authentication-skip-lookup=true",
		},
	}, writeFiles(map[string][]byte{"berth-scheduler.yaml": text})
}
