package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/manifest"
)

// printed returns the agent's file as berth agent --print-config prints it.
func printed() string {
	var parts []string
	for _, info := range Capabilities() {
		parts = append(parts, info.Config)
	}
	return manifest.PrintConfig(parts...)
}

func TestPrintConfigReadsBackAsDefaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(printed()), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := manifest.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.AgentConfig{WorkloadDir: "/etc/berth/workloads", SharedPool: []string{}, ReadPeerConfig: []v1alpha1.PeerConfig{}}
	want.Cluster.Pinning.Namespaces, want.Web.Hosts = []string{}, []string{}
	v1alpha1.SetAgentConfigDefaults(&want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

// A new field of the configuration must be printed too.
func TestPrintConfigIsComplete(t *testing.T) {
	cfg := v1alpha1.AgentConfig{ReservedCPUs: "0", SharedPool: []string{"a"}}
	v1alpha1.SetAgentConfigDefaults(&cfg)
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	for _, key := range keysOf(tree) {
		if !strings.Contains(printed(), key+":") {
			t.Errorf("field %s is not printed", key)
		}
	}
}

func keysOf(tree any) []string {
	object, _ := tree.(map[string]any)
	var keys []string
	for key, value := range object {
		keys = append(append(keys, key), keysOf(value)...)
	}
	return keys
}
