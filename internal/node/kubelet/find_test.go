package kubelet

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
)

// TestFindKubelet checks that the kubelet is identified by the files of its directory, or by an authority if the
// agent's file names one.
func TestFindKubelet(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := v1alpha1.ClusterConfig{KubeletURL: "https://127.0.0.1:1", KubeletDir: dir, KubeletCA: filepath.Join(dir, "ca.crt")}
	ask := func() error {
		t.Helper()
		client, err := Find(cfg, "n", "", token)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		_, err = client.Pods(t.Context())
		return err
	}
	if err := os.WriteFile(cfg.KubeletCA, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(); !errors.Is(err, ErrMalformed) {
		t.Errorf("with an authority: %v", err)
	}
	cfg.KubeletCA = ""
	if err := ask(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("with nothing: %v", err)
	}
	if diff := cmp.Diff([]string{"n", "10.0.0.7"}, serverNames("n", "10.0.0.7")); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
