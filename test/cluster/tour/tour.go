package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/local"
	"github.com/berth-project/berth/test/patience"
)

// tour is one run of the program.
type tour struct {
	out                 io.Writer
	cluster             *local.Cluster
	client              kubernetes.Interface
	kubectl, kubeconfig string
	applied             []string      // files to delete at the end, in reverse order
	loaded              time.Duration // how long a server is under load
	// shown, if set, is called with a batch whose pods run.
	shown func(context.Context, batch) error
}

const (
	// runLimit is how long pods may make no progress until they run, in time during which the machine gave them CPU.
	runLimit = 2 * time.Minute
	// verdict is how long the scheduler has to report why a pod does not run.
	verdict = 10 * time.Second
	// namespace is the tour's own namespace, because the manifests name none.
	namespace = "berth-tour"
	// burstConfig and localityConfig are the manifests that name their own namespace.
	burstConfig    = "cfs-quota-burst-cm.yaml"
	localityConfig = "ml-config.yaml"
	// manyCPUs is the number of CPUs that a node needs for the manifests, applied one at a time.
	manyCPUs = 12
)

// all is the tour but for lends, which takes minutes.
func (t *tour) all(ctx context.Context) error {
	t.title("The cluster")
	if err := t.run(ctx, "get", "nodes", "-o", "wide"); err != nil {
		return err
	}
	if err := t.run(ctx, "get", "nodetopologies"); err != nil {
		return err
	}
	if err := t.space(ctx); err != nil {
		return err
	}
	return errors.Join(t.unchanged(ctx), t.scaled(ctx), t.sides(ctx), t.burst(ctx))
}

// space creates the namespace, after an earlier namespace of that name has gone.
func (t *tour) space(ctx context.Context) error {
	if err := patience.Until(ctx, time.Second, func() string {
		n, err := t.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err == nil && n.DeletionTimestamp != nil {
			return "namespace " + namespace + " is being deleted since " + n.DeletionTimestamp.String()
		}
		return ""
	}); err != nil {
		return err
	}
	if _, err := t.quiet(ctx, "create", "namespace", namespace); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
		return err
	}
	return t.account(ctx)
}

func (t *tour) title(text string) {
	fmt.Fprintf(t.out, "\n%s\n%s\n", text, strings.Repeat("=", len(text)))
}

func (t *tour) say(format string, values ...any) { fmt.Fprintf(t.out, format+"\n", values...) }

// run shows a user's command and its output.
func (t *tour) run(ctx context.Context, args ...string) error {
	t.say("\n$ kubectl %s", strings.Join(args, " "))
	out, err := t.quiet(ctx, args...)
	_, _ = t.out.Write(out)
	return err
}

// quiet runs kubectl and returns its output.
func (t *tour) quiet(ctx context.Context, args ...string) ([]byte, error) {
	return t.fed(ctx, nil, args...)
}

// fed runs kubectl with an input and returns its output.
func (t *tour) fed(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, t.kubectl, args...)
	cmd.Stdin = in
	cmd.Env = append(os.Environ(), "KUBECONFIG="+t.kubeconfig)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, said.Bytes())
	}
	return out, nil
}

// apply applies a manifest, which leave deletes at the end.
func (t *tour) apply(ctx context.Context, file string) error {
	t.applied = append(t.applied, file)
	return t.run(ctx, append([]string{"apply", "-f", file}, inNamespace(file)...)...)
}

// inNamespace returns the namespace flags for a manifest; two manifests name their own namespace.
func inNamespace(file string) []string {
	if name := filepath.Base(file); name == burstConfig || name == localityConfig {
		return nil
	}
	return []string{"-n", namespace}
}

// remove deletes the objects of a manifest, and waits until they are gone.
func (t *tour) remove(ctx context.Context, file string) error {
	args := []string{"delete", "-f", file, "--now", "--ignore-not-found", "--wait"}
	_, err := t.quiet(ctx, append(args, inNamespace(file)...)...)
	return err
}

// account waits until pods can be created in the namespace, whose service account appears a moment later.
func (t *tour) account(ctx context.Context) error {
	return patience.Until(ctx, 100*time.Millisecond, func() string {
		if _, err := t.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return fmt.Sprintf("namespace %s has no service account: %v", namespace, err)
		}
		return ""
	})
}

// leave deletes all remaining objects.
func (t *tour) leave() {
	ctx, _, cancel := patience.WithLimit(context.Background(), runLimit)
	defer cancel()
	for len(t.applied) > 0 {
		last := len(t.applied) - 1
		if err := t.remove(ctx, t.applied[last]); err != nil {
			fmt.Fprintln(os.Stderr, "tour:", err)
		}
		t.applied = t.applied[:last]
	}
	for ctx.Err() == nil { // pods that end slowly still have their CPUs
		if pods, err := t.mine(ctx); err != nil || len(pods) == 0 {
			return
		}
		_ = load.Pause(ctx, time.Second)
	}
}

// seed returns the path of one of the manifests.
func seed(name string) (string, error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "test", "cluster", "testdata", "seeds", name), nil
}

// largest returns the node with the most allocatable CPUs; smallest returns the node with the fewest, which is this
// host.
func (t *tour) largest(ctx context.Context) (v1.Node, error) {
	return t.node(ctx, func(a, b *resource.Quantity) bool { return a.Cmp(*b) > 0 })
}

func (t *tour) smallest(ctx context.Context) (v1.Node, error) {
	return t.node(ctx, func(a, b *resource.Quantity) bool { return a.Cmp(*b) < 0 })
}

func (t *tour) node(ctx context.Context, better func(a, b *resource.Quantity) bool) (v1.Node, error) {
	nodes, err := t.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return v1.Node{}, err
	}
	if len(nodes.Items) == 0 {
		return v1.Node{}, errors.New("the cluster has no node")
	}
	best := nodes.Items[0]
	for _, node := range nodes.Items[1:] {
		if better(node.Status.Allocatable.Cpu(), best.Status.Allocatable.Cpu()) {
			best = node
		}
	}
	return best, nil
}

// mine returns the pods of the namespace.
func (t *tour) mine(ctx context.Context) ([]v1.Pod, error) {
	pods, err := t.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

// await waits until the namespace has pods and every one runs or has completed successfully. It gives up after limit
// without progress, in time during which the machine gave them CPU.
func (t *tour) await(ctx context.Context, limit time.Duration) (all bool, err error) {
	limited, progress, cancel := patience.WithLimit(ctx, limit)
	defer cancel()
	before := ""
	err = patience.Until(limited, 300*time.Millisecond, func() string {
		pods, err := t.mine(limited)
		if err != nil {
			return err.Error()
		}
		now := waiting(pods)
		if now != before {
			before = now
			progress()
		}
		return now
	})
	if errors.Is(err, patience.ErrOver) {
		return false, nil
	}
	return err == nil, err
}

// waiting describes the pods that do not run yet and their progress, or that there are none.
func waiting(pods []v1.Pod) string {
	if len(pods) == 0 {
		return "no pods"
	}
	var all []string
	for i := range pods {
		s := &pods[i].Status
		if s.Phase != v1.PodRunning && s.Phase != v1.PodSucceeded {
			all = append(all, fmt.Sprintf("%s: %s, %d conditions", pods[i].Name, s.Phase, len(s.Conditions)))
		}
	}
	return strings.Join(all, "; ")
}
