package kubelet

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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

// TestKubeletFiles checks that the kubelet's files are used if the agent may not ask it. With deploy/patch for
// Kubernetes 1.31 these are both files, with the patch for k3s and RKE2 only the state.
func TestKubeletFiles(t *testing.T) {
	for name, test := range map[string]struct {
		files    map[string]string
		policy   string
		reserved string
		whole    bool
		err      error
	}{
		"both":       {map[string]string{"config.yaml": kubeletConfig, "cpu_manager_state": kubeletState}, "none", "0-1", false, nil},
		"the state":  {map[string]string{"cpu_manager_state": kubeletState}, "none", "", false, nil},
		"the static": {map[string]string{"cpu_manager_state": `{"policyName":"static","defaultCpuSet":"0-3"}`}, "static", "", false, nil},
		"neither":    {nil, "", "", false, ErrNoState},
	} {
		t.Run(name, func(t *testing.T) {
			r := Source{Dir: kubeletDir(t, test.files)}.Read(t.Context())
			got := []string{r.Config.CPUManagerPolicy, r.Config.ReservedSystemCPUs.String(), strconv.FormatBool(r.Whole)}
			if diff := cmp.Diff([]string{test.policy, test.reserved, strconv.FormatBool(test.whole)}, got); diff != "" || !errors.Is(r.Err, test.err) {
				t.Errorf("error %v, policy, reserved, whole (-want +got):\n%s", r.Err, diff)
			}
		})
	}
}

// TestWatch checks that the configuration is read until the context ends, or until a reading is refused.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Source{Dir: kubeletDir(t, map[string]string{"cpu_manager_state": kubeletState})}
		ctx, cancel := context.WithTimeout(t.Context(), 3*readEvery-time.Second)
		defer cancel()
		readings := 0
		takes := func(err error) func(Reading) error {
			return func(r Reading) error {
				readings++
				if r.Config.CPUManagerPolicy != "none" || r.Err != nil {
					t.Errorf("read %+v", r)
				}
				return err
			}
		}
		if err := s.Watch(ctx, takes(nil)); err != nil || readings != 3 {
			t.Errorf("%d readings, error %v", readings, err)
		}
		if err := s.Watch(t.Context(), takes(io.EOF)); !errors.Is(err, io.EOF) || readings != 4 {
			t.Errorf("%d readings, error %v", readings, err)
		}
	})
}

// TestMemoryManagerOfFiles checks that the files show the current policy of the memory manager if the kubelet cannot be
// asked.
func TestMemoryManagerOfFiles(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmemoryManagerPolicy: None\n"
	for name, c := range map[string]struct{ state, want string }{
		"the configuration":            {want: "None"},
		"what it was started with":     {state: `{"policyName":"Static","machineState":{},"checksum":1}`, want: "Static"},
		"a state that cannot be read":  {state: `{`, want: ""},
		"a state that names no policy": {state: `{}`, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"config.yaml": head, "cpu_manager_state": `{"policyName":"none","defaultCpuSet":"","checksum":1}`}
			if c.state != "" {
				files["memory_manager_state"] = c.state
			}
			got := Source{Dir: kubeletDir(t, files)}.Read(t.Context())
			if c.want == "" {
				if got.Err == nil {
					t.Errorf("%+v, want an error", got)
				}
				return
			}
			if got.Err != nil || got.Whole || got.Config.MemoryManagerPolicy != c.want || got.Config.CPUManagerPolicy != "none" {
				t.Errorf("%+v", got)
			}
		})
	}
}
