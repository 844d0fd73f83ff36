package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
)

// The agents of the cluster, and the patches that stop and restart them, because they would also follow the annotation
// of a peer.
const (
	agentSpace  = "berth-system"
	agentSet    = "berth-agent"
	patchPaused = `{"spec":{"template":{"spec":{"nodeSelector":{"berth.test/paused":"true"}}}}}`
	patchBack   = `{"spec":{"template":{"spec":{"nodeSelector":{"berth.test/paused":null}}}}}`
)

// peer is another agent, with the labels and annotations that its pod needs. It has its own arm, in which Berth does
// not run.
type peer struct {
	bench.PeerOptions
	labels, annotations pairs
}

// register adds the flags.
func (p *peer) register(flags *flag.FlagSet) {
	flags.Func("peer-command", "another agent to run as an arm: a program and arguments between blanks, without a shell; "+bench.PeerGroup+" stands for the group of the server's container", func(text string) error {
		p.Command = strings.Fields(text)
		return nil
	})
	flags.DurationVar(&p.Settle, "peer-settle", 30*time.Second, "how long the peer runs before it is measured")
	p.labels, p.annotations = pairs{}, pairs{}
	flags.Var(p.labels, "peer-label", "KEY=VALUE, a label of the peer's pod; may be repeated")
	flags.Var(p.annotations, "peer-annotation", "KEY=VALUE, an annotation of the peer's pod; may be repeated")
}

// pairs are keys with their values.
type pairs map[string]string

// String implements flag.Value.
func (p pairs) String() string { return fmt.Sprint(map[string]string(p)) }

// Set implements flag.Value.
func (p pairs) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return fmt.Errorf("%q: allowed: KEY=VALUE", text)
	}
	p[key] = value
	return nil
}

// dress puts the peer's labels and annotations on the pod of its arm, in place of Berth's.
func (p *peer) dress(pod *metav1.ObjectMeta) {
	pod.Labels, pod.Annotations = maps.Clone(p.labels), maps.Clone(p.annotations)
}

// agentsBack restarts the agents of the cluster, also after an interrupt.
func (b *benchmark) agentsBack() error {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	return b.agents(ctx, patchBack, false)
}

// agents patches the DaemonSet of the agents, and waits until none or all of them run.
func (b *benchmark) agents(ctx context.Context, patch string, none bool) error {
	sets := b.client.AppsV1().DaemonSets(agentSpace)
	patched, err := sets.Patch(ctx, agentSet, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch DaemonSet %s: %w", agentSet, err)
	}
	for end := time.Now().Add(runLimit); time.Now().Before(end); {
		set, err := sets.Get(ctx, agentSet, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read DaemonSet %s: %w", agentSet, err)
		}
		pods, err := b.client.CoreV1().Pods(agentSpace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)})
		if err != nil {
			return fmt.Errorf("list agents: %w", err)
		}
		s := set.Status
		seen := s.ObservedGeneration >= patched.Generation
		if seen && (none && len(pods.Items) == 0 || !none && s.DesiredNumberScheduled > 0 && s.NumberReady == s.DesiredNumberScheduled) {
			return nil
		}
		if err := load.Pause(ctx, lookEvery); err != nil {
			return err
		}
	}
	return fmt.Errorf("DaemonSet %s is not as patched after %s", agentSet, runLimit)
}
