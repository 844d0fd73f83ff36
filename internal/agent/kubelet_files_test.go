package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/kubelet"
)

const (
	kubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nreservedSystemCPUs: 0-1\n"
	kubeletState  = `{"policyName":"none","defaultCpuSet":"","checksum":1}`
)

// kubeletDir makes the kubelet's root directory with some files.
func kubeletDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Where the kubelet may not be asked, its files say what it does: with deploy/patch of
// Kubernetes 1.31 both, with that of k3s and RKE2 the state alone.
func TestKubeletFiles(t *testing.T) {
	for name, test := range map[string]struct {
		files    map[string]string
		policy   string
		reserved string
		whole    bool
		err      error
	}{
		"both":       {map[string]string{"config.yaml": kubeletConfig, "cpu_manager_state": kubeletState}, "none", "0-1", true, nil},
		"the state":  {map[string]string{"cpu_manager_state": kubeletState}, "none", "", false, nil},
		"the static": {map[string]string{"cpu_manager_state": `{"policyName":"static","defaultCpuSet":"0-3"}`}, "static", "", false, nil},
		"neither":    {nil, "", "", false, kubelet.ErrNoState},
	} {
		t.Run(name, func(t *testing.T) {
			s := &surroundings{config: v1alpha1.ClusterConfig{KubeletDir: kubeletDir(t, test.files)}}
			config, whole, err := s.readKubelet(t.Context())
			got := []string{config.CPUManagerPolicy, config.ReservedSystemCPUs.String(), strconv.FormatBool(whole)}
			if diff := cmp.Diff([]string{test.policy, test.reserved, strconv.FormatBool(test.whole)}, got); diff != "" || !errors.Is(err, test.err) {
				t.Errorf("error %v, policy, reserved, whole (-want +got):\n%s", err, diff)
			}
		})
	}
}

// A mounted file that the kubelet replaced is the old one for ever: the agent ends, and
// its next container has the new one. Where the kubelet sets CPU sets it replaces its
// state with every pod, and nothing depends on it.
func TestReplacedKubeletFileEndsTheAgent(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		last string
		ends bool
	}{
		"the state":         {"cpu_manager_state", "none", true},
		"the configuration": {"config.yaml", "none", true},
		"the static policy": {"cpu_manager_state", "static", false},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.boot()
				dir := kubeletDir(t, map[string]string{"config.yaml": kubeletConfig, "cpu_manager_state": kubeletState})
				file, err := os.Open(filepath.Join(dir, test.file))
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				if err := errors.Join(os.Remove(file.Name()), os.Symlink("/proc/self/fd/"+strconv.Itoa(int(file.Fd())), file.Name())); err != nil {
					t.Fatal(err)
				}
				c := m.controls
				c.takeKubelet(kubelet.Config{CPUManagerPolicy: test.last}, true, nil)
				s := &surroundings{config: v1alpha1.ClusterConfig{KubeletDir: dir}}
				ctx, cancel := context.WithTimeout(t.Context(), 3*kubeletEvery)
				defer cancel()
				if err := s.watchKubelet(ctx, c); errors.Is(err, kubelet.ErrReplaced) != test.ends {
					t.Errorf("error %v", err)
				}
				if policy := c.machine.kubelet.CPUManagerPolicy; policy != test.last {
					t.Errorf("policy %q, want the last one, %q", policy, test.last)
				}
			})
		})
	}
}
