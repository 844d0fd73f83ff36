package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/controlplane"
)

// shipped are the manifests of deploy that the documentation says to apply, in that order,
// except that berth-scheduler is no Deployment here: a scheduler in a pod would need another
// scheduler first. The agent's are there once it ships.
func shipped() []string {
	return []string{
		"namespace.yaml", "koordinator-namespace.yaml", "crd/*.yaml", "policy/keys.yaml", "policy/placement.yaml",
		"scheduler/rbac.yaml", "scheduler/replace.yaml",
	}
}

// agentManifests are the agent's.
const agentManifests = "agent/*.yaml"

// withoutAgent, set in the environment, leaves the agent out: the tests of the agent start
// their own.
const withoutAgent = "BERTH_CLUSTER_WITHOUT_AGENT"

// read returns the manifests that match patterns below deploy.
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

// install applies the manifests and says whether the agent is among them.
func install(ctx context.Context, plane *controlplane.ControlPlane) (agent bool, err error) {
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
	return len(agents) > 0, plane.Apply(ctx, append(documents, agents...)...)
}

// The service account that ships.
const (
	namespace = "berth-system"
	account   = "berth-scheduler"
)

// scheduler is berth-scheduler, the only scheduler, with the configuration and the rights that
// ship.
func scheduler(p cluster.Programs, plane *controlplane.ControlPlane) (server, error) {
	// As the service account, by a certificate: a token would end with the day.
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
