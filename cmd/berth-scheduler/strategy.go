package main

import (
	"encoding/json"
	"os"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
)

// strategiesIn returns the strategies that follow from a configuration file, by profile. A profile spreads CPUs if its
// args of NodeResourcesFit say LeastAllocated. The default of NodeResourcesFit is the same, but says nothing about what
// the administrator wants. Of a file that cannot be read, kube-scheduler itself says so.
func strategiesIn(path string) map[string]v1alpha1.NUMAAllocateStrategy {
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strategiesOf(data)
}

// strategiesOf is strategiesIn for the content of the file.
func strategiesOf(data []byte) map[string]v1alpha1.NUMAAllocateStrategy {
	var cfg configv1.KubeSchedulerConfiguration // as written, without kube-scheduler's defaults
	if yaml.Unmarshal(data, &cfg) != nil {
		return nil
	}
	strategies := map[string]v1alpha1.NUMAAllocateStrategy{}
	for i := range cfg.Profiles {
		name := v1.DefaultSchedulerName
		if given := cfg.Profiles[i].SchedulerName; given != nil {
			name = *given
		}
		if spreads(&cfg.Profiles[i]) {
			strategies[name] = v1alpha1.NUMALeastAllocated
		}
	}
	return strategies
}

// spreads reports whether a profile says that NodeResourcesFit prefers the emptiest nodes.
func spreads(profile *configv1.KubeSchedulerProfile) bool {
	for _, one := range profile.PluginConfig {
		var args configv1.NodeResourcesFitArgs
		if one.Name != "NodeResourcesFit" || json.Unmarshal(one.Args.Raw, &args) != nil {
			continue
		}
		return args.ScoringStrategy != nil && args.ScoringStrategy.Type == configv1.LeastAllocated
	}
	return false
}
