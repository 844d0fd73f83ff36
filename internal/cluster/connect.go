package cluster

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Connect returns how to reach the API server: as the file kubeconfig says, or
// with an empty name as a pod does, by its service account. agent is the name of
// the program and its version, for the API server's log. It asks nobody. Errors
// are ErrNoCluster, and files that cannot be read.
func Connect(kubeconfig, agent string) (*rest.Config, error) {
	config, err := connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = agent
	return config, nil
}

func connect(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, fmt.Errorf("%w: %w", ErrNoCluster, err)
	}
	if err != nil {
		return nil, fmt.Errorf("service account of the pod: %w", err)
	}
	return config, nil
}
