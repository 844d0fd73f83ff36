package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestManifest reads the manifest as strictly as krew does, and compares its platform, URI and checksum with the
// archive.
func TestManifest(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "kubectl-berth-linux-arm64.tar.gz")
	if err := os.WriteFile(archive, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{"v0.2.0", "v0.2.0", "arm64=" + archive}, &out); err != nil {
		t.Fatal(err)
	}
	var got manifest
	if err := yaml.UnmarshalStrict(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Metadata["name"] != "berth" || got.Spec.Version != "v0.2.0" {
		t.Errorf("the manifest is of %s %s", got.Metadata["name"], got.Spec.Version)
	}
	want := []platform{{
		Selector: selector{MatchLabels: map[string]string{"os": "linux", "arch": "arm64"}},
		URI:      "https://github.com/berth-project/berth/releases/download/v0.2.0/kubectl-berth-linux-arm64.tar.gz",
		SHA256:   "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
		Files:    []files{{From: "kubectl-berth", To: "."}, {From: "LICENSE", To: "."}, {From: "THIRD_PARTY_NOTICES", To: "."}},
		Bin:      "kubectl-berth",
	}}
	if diff := cmp.Diff(want, got.Spec.Platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}
