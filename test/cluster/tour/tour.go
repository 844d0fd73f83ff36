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

	"github.com/berth-project/berth/internal/load"
	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/local"
	"github.com/berth-project/berth/test/patience"
)

// tour is one run.
type tour struct {
	out                 io.Writer
	cluster             *local.Cluster
	client              kubernetes.Interface
	kubectl, kubeconfig string
	applied             []string      // files to delete at the end, the last first
	loaded              time.Duration // how long a server is under load
	// shown, if set, looks at a batch whose pods run.
	shown func(context.Context, batch) error
}

const (
	// runLimit is how long pods may go without progress until they run, in time that the
	// machine served.
	runLimit = 2 * time.Minute
	// verdict is how long the scheduler gets to say why a pod does not run.
	verdict = 10 * time.Second
	// namespace is the tour's own: the manifests name none.
	namespace = "berth-tour"
	// burstConfig and localityConfig are the manifests that name their namespace.
	burstConfig    = "cfs-quota-burst-cm.yaml"
	localityConfig = "ml-config.yaml"
	// manyCPUs is what the manifests need of a node: one of them at a time.
	manyCPUs = 12
)

// all is the way through.
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
	return errors.Join(t.unchanged(ctx), t.scaled(ctx), t.burst(ctx))
}

// space makes the namespace, when another's of that name has gone.
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

// run shows a command of a user, and what it prints.
func (t *tour) run(ctx context.Context, args ...string) error {
	t.say("\n$ kubectl %s", strings.Join(args, " "))
	out, err := t.quiet(ctx, args...)
	_, _ = t.out.Write(out)
	return err
}

// quiet runs kubectl and returns what it prints.
func (t *tour) quiet(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, t.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+t.kubeconfig)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, said.Bytes())
	}
	return out, nil
}

// apply applies a manifest, and remembers to delete it.
func (t *tour) apply(ctx context.Context, file string) error {
	t.applied = append(t.applied, file)
	return t.run(ctx, append([]string{"apply", "-f", file}, inNamespace(file)...)...)
}

// inNamespace says in which namespace a manifest is meant: two of them name their own.
func inNamespace(file string) []string {
	if name := filepath.Base(file); name == burstConfig || name == localityConfig {
		return nil
	}
	return []string{"-n", namespace}
}

// remove deletes what a manifest made, and waits until it is gone.
func (t *tour) remove(ctx context.Context, file string) error {
	args := []string{"delete", "-f", file, "--now", "--ignore-not-found", "--wait"}
	_, err := t.quiet(ctx, append(args, inNamespace(file)...)...)
	return err
}

// account waits until pods may be created in the namespace: its service account comes a
// moment later.
func (t *tour) account(ctx context.Context) error {
	return patience.Until(ctx, 100*time.Millisecond, func() string {
		if _, err := t.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return fmt.Sprintf("namespace %s has no service account: %v", namespace, err)
		}
		return ""
	})
}

// leave deletes all that is left.
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
	for ctx.Err() == nil { // what ends slowly still has its CPUs
		if pods, err := t.mine(ctx); err != nil || len(pods) == 0 {
			return
		}
		_ = load.Pause(ctx, time.Second)
	}
}

// seed is the path of one of the manifests.
func seed(name string) (string, error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "test", "cluster", "testdata", "seeds", name), nil
}

// largest is the node with the most CPUs to give, smallest that with the fewest: the one on
// this host.
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

// mine are the pods of the namespace.
func (t *tour) mine(ctx context.Context) ([]v1.Pod, error) {
	pods, err := t.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

// await waits until every pod of the namespace runs, or has ended well, and there is one; it gives
// up when there was no progress for so long, in time that the machine served.
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

// waiting says which pods do not run yet and how far they are, or that there are none.
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
