// Package deploy holds the manifests and the unit that Berth is installed with, so
// that a program can install them too.
package deploy

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed namespace.yaml koordinator-namespace.yaml crd/*.yaml scheduler/replace.yaml agent/*.yaml hostpid/daemonset.yaml
var files embed.FS

//go:embed package/berth-agent.service
var unit string

//go:embed package/agent.yaml
var agentFile string

// Unit returns the unit of systemd that the packages have.
func Unit() string { return unit }

// AgentFile returns the agent's file that the packages have.
func AgentFile() string { return agentFile }

// Definitions returns the YAML of the custom resource definitions, in the
// order of their file names.
func Definitions() ([][]byte, error) { return read("crd/*.yaml") }

// Agent returns the YAML of all that the agents need besides the definitions: the
// namespaces, then their configuration, rights, policy and DaemonSet.
func Agent() ([][]byte, error) {
	return read("namespace.yaml", "koordinator-namespace.yaml", "agent/*.yaml")
}

// HostPID returns the YAML of a strategic merge patch of the agents' DaemonSet, with what
// they need to move the pages of pods.
func HostPID() ([]byte, error) {
	patch, err := files.ReadFile("hostpid/daemonset.yaml")
	if err != nil {
		return nil, fmt.Errorf("agents that move pages: %w", err)
	}
	return patch, nil
}

// read returns the files of some patterns: pattern by pattern, and each in the
// order of the names.
func read(patterns ...string) ([][]byte, error) {
	var documents [][]byte
	for _, pattern := range patterns {
		names, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, fmt.Errorf("manifests %s: %w", pattern, err)
		}
		for _, name := range names {
			document, err := files.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("manifests: %w", err)
			}
			documents = append(documents, document)
		}
	}
	return documents, nil
}

// Replace returns the YAML of the scheduler's configuration in the mode in
// which Berth replaces the default scheduler: a ConfigMap with the key
// config.yaml.
func Replace() ([]byte, error) {
	manifest, err := files.ReadFile("scheduler/replace.yaml")
	if err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	return manifest, nil
}
