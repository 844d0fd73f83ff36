package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
)

const (
	// statusEvery is the shortest interval between two writes of a status.
	statusEvery = 10 * time.Second
	// verifyEvery is how often the publisher checks that nobody else changed the object.
	verifyEvery = time.Minute
	// topologyLimit is the timeout of a request.
	topologyLimit = 10 * time.Second
)

// publisher writes the NodeTopology of the node as it was last published.
type publisher struct {
	client *apiclient.Topologies
	name   string
	held   func() bool
	owner  func() *metav1.OwnerReference
	log    *slog.Logger
	wake   apiclient.Wake

	mu     sync.Mutex
	spec   *v1alpha1.NodeTopologySpec
	status *v1alpha1.NodeTopologyStatus

	// live is the object as last read or written, nil to read it.
	live *v1alpha1.NodeTopology
	// seen is the time of the last read, wrote that of the last write of the status.
	seen, wrote time.Time
	// failures counts the failures in a row. The next try is not before due.
	failures int
	due      time.Time
}

// publish hands over what run has to write; without a spec, only conditions. It wakes run only for news: run checks by itself what it wrote, and knows
// when the next write is due.
func (p *publisher) publish(spec *v1alpha1.NodeTopologySpec, status *v1alpha1.NodeTopologyStatus) {
	p.mu.Lock()
	same := equality.Semantic.DeepEqual(p.spec, spec) && equality.Semantic.DeepEqual(p.status, status)
	p.spec, p.status = spec, status
	p.mu.Unlock()
	if !same {
		p.wake.Soon()
	}
}

func (p *publisher) run(ctx context.Context) {
	for p.wake.Pause(ctx, p.step(ctx)) {
	}
}

// step writes what is due and returns the time until the next step.
func (p *publisher) step(ctx context.Context) time.Duration {
	p.mu.Lock()
	spec, status := p.spec, p.status
	p.mu.Unlock()
	if status == nil || !p.held() {
		return verifyEvery
	}
	if wait := time.Until(p.due); wait > 0 {
		return wait // New data is no reason to retry a failing server sooner.
	}
	limited, cancel := context.WithTimeout(ctx, topologyLimit)
	defer cancel()
	next, err := p.write(limited, spec, status)
	if err == nil {
		p.failures, p.due = 0, time.Time{}
		return next
	}
	p.live = nil
	p.failures++
	if p.failures == 3 && ctx.Err() == nil {
		p.log.Warn("NodeTopology cannot be written; trying on", "node", p.name, "error", err)
	}
	pause := backoff(p.failures)
	p.due = time.Now().Add(pause)
	return pause
}

// write updates the object and returns the time until the next check. Without a spec it only updates the conditions of
// an object that exists.
func (p *publisher) write(ctx context.Context, spec *v1alpha1.NodeTopologySpec, status *v1alpha1.NodeTopologyStatus) (time.Duration, error) {
	if p.live == nil || time.Since(p.seen) >= verifyEvery {
		if err := p.look(ctx, spec); err != nil {
			return 0, err
		}
	}
	if p.live == nil {
		return verifyEvery, nil
	}
	if spec != nil && (!equality.Semantic.DeepEqual(p.live.Spec, *spec) || !p.owned()) {
		changed := p.live.DeepCopy()
		changed.Spec = *spec
		p.own(changed)
		if err := p.put(ctx, p.client.Update, changed); err != nil {
			return 0, err
		}
	}
	wanted := withTimes(status, p.live.Status.Conditions, metav1.Now())
	if spec == nil {
		wanted = withConditions(&p.live.Status, status.Conditions)
	}
	if equality.Semantic.DeepEqual(p.live.Status, *wanted) {
		return verifyEvery, nil
	}
	if wait := statusEvery - time.Since(p.wrote); wait > 0 {
		return wait, nil
	}
	changed := p.live.DeepCopy()
	changed.Status = *wanted
	p.wrote = time.Now()
	return verifyEvery, p.put(ctx, p.client.UpdateStatus, changed)
}

// look reads the object, and creates it if it is missing. Without a spec it creates nothing: a NodeTopology without CPUs
// is no machine.
func (p *publisher) look(ctx context.Context, spec *v1alpha1.NodeTopologySpec) error {
	found, err := p.client.Get(ctx, p.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && spec == nil {
		p.live = nil
		return nil
	}
	if apierrors.IsNotFound(err) {
		made := &v1alpha1.NodeTopology{
			ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: map[string]string{"app.kubernetes.io/part-of": "berth"}},
			Spec:       *spec,
		}
		p.own(made)
		found, err = p.client.Create(ctx, made, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("NodeTopology %s: %w", p.name, err)
	}
	p.live, p.seen = found, time.Now()
	return nil
}

// update is the method of a client that replaces an object or its status.
type update func(context.Context, *v1alpha1.NodeTopology, metav1.UpdateOptions) (*v1alpha1.NodeTopology, error)

func (p *publisher) put(ctx context.Context, put update, object *v1alpha1.NodeTopology) error {
	written, err := put(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("NodeTopology %s: %w", p.name, err)
	}
	p.live = written
	return nil
}

// owned reports whether the object will be deleted with the node.
func (p *publisher) owned() bool {
	owner := p.owner()
	if owner == nil {
		return true
	}
	owners := p.live.OwnerReferences
	return len(owners) == 1 && owners[0] == *owner
}

func (p *publisher) own(object *v1alpha1.NodeTopology) {
	if owner := p.owner(); owner != nil {
		object.OwnerReferences = []metav1.OwnerReference{*owner}
	}
}

// withTimes returns the status with a time for each condition: the old time while its status is unchanged.
func withTimes(status *v1alpha1.NodeTopologyStatus, old []metav1.Condition, now metav1.Time) *v1alpha1.NodeTopologyStatus {
	out := status.DeepCopy()
	for i := range out.Conditions {
		condition := &out.Conditions[i]
		condition.LastTransitionTime = now
		if was := meta.FindStatusCondition(old, condition.Type); was != nil && was.Status == condition.Status {
			condition.LastTransitionTime = was.LastTransitionTime
		}
	}
	return out
}

// withConditions returns the old status with these conditions: all its other fields and conditions stay.
func withConditions(old *v1alpha1.NodeTopologyStatus, conditions []metav1.Condition) *v1alpha1.NodeTopologyStatus {
	out := old.DeepCopy()
	for _, condition := range conditions {
		meta.SetStatusCondition(&out.Conditions, condition)
	}
	return out
}
