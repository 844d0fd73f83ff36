package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/test/cluster/local"
	"github.com/berth-project/berth/test/patience"
)

// batch is a group of the documentation's manifests that the tour applies together.
type batch struct {
	what  string
	files []string
}

func batches() []batch {
	return []batch{
		{"a pod with 4 exclusive CPUs", []string{"cal-pi.yaml"}},
		{"a Deployment of 4 pods that request 1 CPU and are limited to 4", []string{"go-demo.yaml"}},
		{"nginx behind a Service, pinned", []string{"nginx-service.yaml", "nginx-configmap.yaml", "nginx-deployment-pinned.yaml"}},
		{"a ConfigMap that lets pods with a label burst, and such a pod", []string{burstConfig, "apache-demo.yaml"}},
	}
}

// unchanged applies the manifests unchanged, one batch after the other.
func (t *tour) unchanged(ctx context.Context) error {
	node, err := t.largest(ctx)
	if err != nil {
		return err
	}
	fits := node.Status.Allocatable.Cpu().Value() >= manyCPUs
	t.title("The manifests of ACK and Koordinator, unchanged")
	if !fits {
		t.say("They ask for 4 CPUs a pod; the largest node here has %s: they stay Pending, with the reason.",
			node.Status.Allocatable.Cpu())
	}
	if fits {
		if err := t.pinnable(ctx, node.Name); err != nil {
			return err
		}
	}
	// nginx selects a node by this label in its documentation.
	label := []byte(`{"metadata":{"labels":{"policy":"intel7"}}}`)
	if _, err := t.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		return err
	}
	var errs []error
	for _, b := range batches() {
		errs = append(errs, t.batch(ctx, b, fits))
	}
	return errors.Join(errs...)
}

// pinnable waits until the agent of a node reports that it pins, because a new node takes a moment.
func (t *tour) pinnable(ctx context.Context, node string) error {
	return patience.Until(ctx, time.Second, func() string {
		said, err := local.Pinnable(ctx, t.client, node)
		if err != nil {
			return err.Error()
		}
		if !strings.HasPrefix(said, string(metav1.ConditionTrue)+" ") {
			return "the agent of " + node + " does not say that it pins"
		}
		return ""
	})
}

// batch applies some manifests, shows the results, and deletes them.
func (t *tour) batch(ctx context.Context, b batch, fits bool) error {
	t.say("\n# %s", b.what)
	if slices.Contains(b.files, burstConfig) {
		if _, err := t.quiet(ctx, "create", "namespace", "koordinator-system"); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
			return err
		}
	}
	for _, name := range b.files {
		file, err := seed(name)
		if err != nil {
			return err
		}
		if err := t.apply(ctx, file); err != nil {
			return err
		}
	}
	limit := runLimit
	if !fits {
		limit = verdict
	}
	runs, err := t.await(ctx, limit)
	if err != nil {
		return err
	}
	if err := t.table(ctx); err != nil {
		return err
	}
	if runs && t.shown != nil {
		if err := t.shown(ctx, b); err != nil {
			return err
		}
	}
	t.leave() //nolint:contextcheck // it has its own
	if fits && !runs {
		return fmt.Errorf("%s: not running after %s", strings.Join(b.files, ", "), runLimit)
	}
	return nil
}

// column is another column of the table.
type column struct {
	head string
	of   func(seen) string
}

// table shows every pod: its node, its placement, what its processes may use, these columns, and why it does not run.
func (t *tour) table(ctx context.Context, columns ...column) error {
	pods, err := t.mine(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(t.out, 0, 4, 2, ' ', 0)
	fmt.Fprint(w, "\nPOD\tPHASE\tNODE\tPLACEMENT\tITS PROCESS, AS THE KERNEL HAS IT")
	for _, c := range columns {
		fmt.Fprint(w, "\t", c.head)
	}
	fmt.Fprintln(w, "\tREASON")
	for i := range pods {
		p := &pods[i]
		has := t.kernel(ctx, p)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s", p.Name, p.Status.Phase, dash(p.Spec.NodeName), placement(p), has)
		for _, c := range columns {
			fmt.Fprint(w, "\t", c.of(has))
		}
		fmt.Fprintf(w, "\t%s\n", reason(p))
	}
	return w.Flush()
}

// placement returns the annotation in short form.
func placement(p *v1.Pod) string {
	text, found := p.Annotations[v1alpha1.AnnotationPlacement]
	if !found {
		return "-"
	}
	decoded, problems := v1alpha1.DecodePlacement(text)
	if err := problems.Err(); err != nil {
		return err.Error()
	}
	var parts []string
	for _, c := range p.Spec.Containers {
		if given, found := decoded.Containers[c.Name]; found {
			parts = append(parts, fmt.Sprintf("cpus %s mems %s", given.CPUs, given.Mems))
		}
	}
	return strings.Join(parts, "; ")
}

// reason returns the scheduler's reason why a pod is not scheduled.
func reason(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Message
		}
	}
	return "-"
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
