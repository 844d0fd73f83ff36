package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/test/cluster/controlplane"
	"github.com/berth-project/berth/test/patience"
)

// root is the path of the source tree from this package's directory.
const root = "../.."

// stand is a control plane for one test, with clients of the administrator.
type stand struct {
	*controlplane.ControlPlane
	programs Programs
	server   string   // Where schedulers find the API server, if not directly,
	serverCA []byte   // and the authority of that server's certificate.
	flags    []string // For schedulers, in addition to the usual flags.
	away     bool     // The API server was stopped at least once.
	client   kubernetes.Interface
	dynamic  dynamic.Interface
}

// built returns the programs, or skips the test if they are missing.
func built(t *testing.T) Programs {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	programs, err := Find()
	switch {
	case errors.Is(err, ErrNotBuilt) && os.Getenv("BERTH_CLUSTER") != "require":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return programs
}

// newStand starts a control plane that ends with the test. flags are for kube-apiserver.
func newStand(t *testing.T, flags ...string) *stand {
	t.Helper()
	programs := built(t)
	plane, err := controlplane.Start(t.Context(), logs(t), programs.Programs, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &stand{ControlPlane: plane, programs: programs}
	s.client, s.dynamic = clients(t, plane.Config())
	return s
}

// StopAPIServer remembers the stop, because a restarted server refuses permitted requests until it has read the rights.
func (s *stand) StopAPIServer() error {
	s.away = true
	return s.ControlPlane.StopAPIServer()
}

// logs returns the directory of a test's logs.
func logs(t *testing.T) string {
	t.Helper()
	kept := os.Getenv("BERTH_CLUSTER_LOGS")
	if kept == "" {
		return t.TempDir()
	}
	dir := filepath.Join(kept, t.Name())
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func clients(t *testing.T, config *rest.Config) (kubernetes.Interface, dynamic.Interface) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, dyn
}

// installation returns the manifests of every installation, in order.
func installation() []string {
	return []string{"namespace.yaml", "crd/*.yaml", "scheduler/rbac.yaml"}
}

// installed returns a stand with the shipped objects for the scheduler.
func installed(t *testing.T, flags ...string) *stand {
	t.Helper()
	s := newStand(t, flags...)
	s.shipped(t, installation()...)
	return s
}

// shipped applies the manifests of deploy/ that match patterns.
func (s *stand) shipped(t *testing.T, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, "deploy", filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("no manifest deploy/%s: %v", pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Apply(t.Context(), content); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
}

// apply applies one document.
func (s *stand) apply(t *testing.T, document string) {
	t.Helper()
	if err := s.Apply(t.Context(), []byte(document)); err != nil {
		t.Fatal(err)
	}
}

// within waits until what returns an empty string. It fails with the last returned string when no progress happens any
// more.
func within(t *testing.T, what func() (missing string)) {
	t.Helper()
	if err := patience.Until(context.WithoutCancel(t.Context()), 50*time.Millisecond, what); err != nil {
		t.Fatal(err)
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// mustContain reports each text that is missing in an error message.
func mustContain(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q lacks %q", err, text)
		}
	}
}

func containsAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
