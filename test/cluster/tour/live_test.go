package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/local"
	"github.com/berth-project/berth/test/cluster/vmnode"
	"github.com/berth-project/berth/test/patience"
)

// TestSecondNode applies the unchanged manifests of the documentation to a cluster with a node that has two NUMA nodes,
// SMT and cgroup v2. It compares the kernel's masks with the placements, and causes faults on that node.
func TestSecondNode(t *testing.T) {
	tour := inCluster(t)
	localcluster(t, "vm")
	c := tour.cluster
	batches := 0
	tour.shown = func(ctx context.Context, b batch) error {
		batches++
		return errors.Join(tour.pinned(ctx), tour.bursts(ctx, b))
	}
	if err := tour.space(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("Manifests", func(t *testing.T) {
		if err := tour.all(t.Context()); err != nil {
			t.Error(err)
		}
		if batches != 4 {
			t.Errorf("%d of 4 batches of manifests ran", batches)
		}
	})
	node, err := vmnode.Open(c.Dir(vmName))
	if err != nil {
		t.Fatal(err)
	}
	other := &second{tour: tour, node: node}
	t.Run("Machine", other.machine)
	t.Run("Commands", other.commands)
	t.Run("Nginx", other.nginx)
	other.clean(t)
	t.Run("Open", other.open)
	other.clean(t)
	t.Run("Churn", other.churn)
	other.clean(t)
	t.Run("Isolation", other.isolation)
	other.clean(t)
	t.Run("StaticBurst", func(t *testing.T) {
		const digits = 2000 // A tenth of the document's: this machine is slow.
		if shown, err := tour.lends(t.Context(), digits); err != nil || !shown {
			t.Errorf("shown: %v, %v", shown, err)
		}
	})
	other.clean(t)
	t.Run("Redis", other.redis)
	other.clean(t)
	t.Run("ResizePinned", other.resizePinned)
	other.clean(t)
	t.Run("CPUOffline", other.offline)
	t.Run("DaemonReload", other.reload)
	t.Run("PowerCut", other.cut)
	other.clean(t)
	t.Run("MemoryLocality", other.locality)
	other.clean(t)
	t.Run("Repack", other.repack)
	other.clean(t)
	t.Run("Shutdown", other.shutdown)
}

// inCluster returns a tour of the running cluster, or of one that ends with the test.
func inCluster(t *testing.T) *tour {
	t.Helper()
	programs := found(t)
	if !borrowed() {
		t.Cleanup(func() {
			if err := local.Down(context.WithoutCancel(t.Context()), t.Output()); err != nil {
				t.Error(err)
			}
		})
		localcluster(t, "up")
	}
	c, err := local.Running()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	tour := &tour{out: t.Output(), cluster: c, client: client, kubectl: programs.Kubectl, kubeconfig: local.Kubeconfig(), loaded: loaded / 5}
	t.Cleanup(tour.leave)
	return tour
}

// localcluster runs the program as a user does.
func localcluster(t *testing.T, args ...string) {
	t.Helper()
	programs, err := cluster.Find()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), programs.LocalCluster, args...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Run(); err != nil {
		t.Fatalf("localcluster %s: %v", args, err)
	}
}

// borrowed reports whether the test uses the running cluster and leaves it running.
func borrowed() bool { return os.Getenv("BERTH_NODE_CLUSTER") == "running" }

// found returns the programs, or skips the test with the reason why there is no cluster.
func found(t *testing.T) cluster.Programs {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	programs, err := cluster.Find()
	if err == nil {
		err = vmnode.Check(t.Context())
	}
	if _, running := local.Running(); err == nil && running == nil && !borrowed() {
		err = errors.New("a cluster is up, and is not the test's to end; run: make cluster-down")
	}
	switch {
	case err != nil && (os.Getenv("BERTH_CLUSTER") == "require" || os.Getenv("BERTH_VM") == "require"):
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	case os.Geteuid() != 0:
		t.Skip("needs root")
	}
	return programs
}

// pinned checks every pod with a placement: the kernel's masks equal the placement, there is no quota, and no two pods
// have a common CPU.
func (t *tour) pinned(ctx context.Context) error {
	pods, err := t.mine(ctx)
	if err != nil {
		return err
	}
	var errs []error
	var taken cpuset.Set
	for i := range pods {
		p := &pods[i]
		if p.Annotations[v1alpha1.AnnotationCPUSetScheduler] != "true" || p.Status.Phase != v1.PodRunning {
			continue
		}
		placement, problems := v1alpha1.DecodePlacement(p.Annotations[v1alpha1.AnnotationPlacement])
		if err := problems.Err(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
			continue
		}
		given := placement.Containers[p.Spec.Containers[0].Name]
		has := t.kernel(ctx, p)
		cpus, err := cpuset.Parse(given.CPUs)
		if err != nil || cpus.Size() != 4 || cpus.Intersects(taken) {
			errs = append(errs, fmt.Errorf("%s: placed on %q, others have %s: %w", p.Name, given.CPUs, taken, err))
		}
		taken = taken.Union(cpus)
		if has.CPUs != given.CPUs || has.Mems != given.Mems || !strings.HasPrefix(has.Quota, "max ") {
			errs = append(errs, fmt.Errorf("%s: the kernel has %s, the placement says %+v", p.Name, has, given))
		}
	}
	return errors.Join(errs...)
}

// bursts checks that the quota of the pod that the ConfigMap selects is above its limit.
func (t *tour) bursts(ctx context.Context, b batch) error {
	if !slices.Contains(b.files, "apache-demo.yaml") {
		return nil
	}
	const limit, ceiling = "400000 100000", "1199998 100000"
	return patience.Until(ctx, time.Second, func() string {
		pod, err := t.client.CoreV1().Pods(namespace).Get(ctx, "apache-demo", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if quota := t.kernel(ctx, pod).Quota; quota != ceiling {
			return fmt.Sprintf("apache-demo, limited to %s, has %s, want %s", limit, quota, ceiling)
		}
		return ""
	})
}
