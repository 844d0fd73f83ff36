package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/scheduler/schedule"
)

// TestStrategiesOf checks that a profile spreads CPUs only if it says so itself.
func TestStrategiesOf(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	profile := func(name, args string) string {
		return "- schedulerName: " + name + "\n  pluginConfig:\n  - name: Berth\n    args: {kind: SchedulerArgs}\n  - name: NodeResourcesFit\n    args: " + args + "\n"
	}
	least := func(names ...string) map[string]v1alpha1.NUMAAllocateStrategy {
		all := map[string]v1alpha1.NUMAAllocateStrategy{}
		for _, name := range names {
			all[name] = v1alpha1.NUMALeastAllocated
		}
		return all
	}
	for what, test := range map[string]struct {
		text string
		want map[string]v1alpha1.NUMAAllocateStrategy
	}{
		"explicit":             {profile("a", "{scoringStrategy: {type: LeastAllocated}}"), least("a")},
		"with resources":       {profile("a", "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 2}]}}"), least("a")},
		"implicit":             {profile("a", "{ignoredResources: [example.com/x]}"), least()},
		"packs":                {profile("a", "{scoringStrategy: {type: MostAllocated}}"), least()},
		"two profiles of four": {profile("a", "{scoringStrategy: {type: LeastAllocated}}") + profile("b", "{}") + profile("c", "{scoringStrategy: {type: LeastAllocated}}") + "- schedulerName: d\n", least("a", "c")},
		"without a name":       {"- pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: LeastAllocated}}\n", least("default-scheduler")},
		"another plugin":       {"- schedulerName: a\n  pluginConfig:\n  - name: Other\n    args: {scoringStrategy: {type: LeastAllocated}}\n", least()},
		"no args":              {"- schedulerName: a\n  pluginConfig:\n  - name: NodeResourcesFit\n", least()},
		"args of another kind": {profile("a", "[1]"), least()},
	} {
		if got := strategiesOf([]byte(head + "profiles:\n" + test.text)); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", what, got, test.want)
		}
	}
	for what, text := range map[string]string{"no profiles": head, "empty": "", "no YAML": "{", "a list": "[1]"} {
		if got := strategiesOf([]byte(text)); len(got) > 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
	if got := strategiesIn(filepath.Join(t.TempDir(), "none.yaml")); len(got) > 0 {
		t.Errorf("no file: %v", got)
	}
}

// TestCommandReadsStrategies checks that the command reads the file of --config before it makes plugins. The file is
// invalid for kube-scheduler, so the command ends there.
func TestCommandReadsStrategies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const text = "profiles:\n- schedulerName: a\n  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: LeastAllocated}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	factory := new(schedule.Factory)
	cmd := commandOf(factory)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--config", file})
	if err := cmd.Execute(); err == nil {
		t.Fatal("a configuration without a kind was accepted")
	}
	if got := factory.Strategies["a"]; got != v1alpha1.NUMALeastAllocated {
		t.Errorf("the factory has %v", factory.Strategies)
	}
}
