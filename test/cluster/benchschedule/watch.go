package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

const (
	// bindLimit is how long a run waits for the next bound pod before it fails.
	bindLimit = 2 * time.Minute
	// reopenLimit is how often the watch of one run may end early without a new bound pod in between. An API server that
	// is short of CPU ends watches that it cannot serve in time.
	reopenLimit = 20
)

// boundWatch watches the metadata of bound pods. A bound pod enters this watch as added. The program never decodes whole
// pods here, because it shares the CPUs with the measured scheduler.
type boundWatch struct {
	from    metadata.ResourceInterface
	version string
	open    watch.Interface
	// pods counts the pods bound since the watch began, by namespace.
	pods map[string]int
	// reopened counts watches that ended early, futile those since the last bound pod; cause is the error of the last.
	reopened, futile int
	cause            error
}

func (c *cluster) watchBound(ctx context.Context) (*boundWatch, error) {
	b := &boundWatch{from: c.metadata.Resource(v1.SchemeGroupVersion.WithResource("pods")), pods: map[string]int{}}
	now, err := b.from.List(ctx, metav1.ListOptions{FieldSelector: bound(), Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	b.version = now.ResourceVersion
	return b, b.start(ctx)
}

// bound selects bound pods. The API server looks up watches of one node name in an index, also of an empty one, and
// gives these a queue of only 10 events. So unbound pods, as a selector, would end a watch at any delay.
func bound() string { return fields.OneTermNotEqualSelector("spec.nodeName", "").String() }

// start watches from the last version that the program saw.
func (b *boundWatch) start(ctx context.Context) (err error) {
	b.open, err = b.from.Watch(ctx, metav1.ListOptions{FieldSelector: bound(), ResourceVersion: b.version})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	return nil
}

func (b *boundWatch) stop() {
	if b.open != nil {
		b.open.Stop()
	}
}

// warm reports whether each arm has a tenth of its pods bound.
func (b *boundWatch) warm(arms []scheduleArm) bool {
	return !slices.ContainsFunc(arms, func(a scheduleArm) bool { return b.pods[a.namespace()] < max(1, a.pods/warmShare) })
}

// done reports whether an arm has all its pods bound.
func (b *boundWatch) done(arms []scheduleArm) bool {
	return slices.ContainsFunc(arms, func(a scheduleArm) bool { return b.pods[a.namespace()] >= a.pods })
}

// await waits until enough pods are bound. It checks after each pod.
func (b *boundWatch) await(ctx context.Context, running schedulers, enough func() bool) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := time.Now(); !enough(); {
		select {
		case <-ctx.Done():
			return fmt.Errorf("bench schedule: %w", ctx.Err())
		case <-tick.C:
			if err := running.alive(); err != nil {
				return fmt.Errorf("bench schedule: %w", err)
			}
			if time.Since(last) > bindLimit {
				return fmt.Errorf("%w: no pod bound in %s; bound until then: %v; see %s", ErrSchedule, bindLimit, b.pods, running.logs())
			}
		case event, open := <-b.open.ResultChan():
			bound, err := b.take(ctx, event, open)
			if err != nil {
				return err
			}
			if bound {
				last = time.Now()
			}
		}
	}
	return nil
}

// take counts a newly bound pod, and reports whether an event is one. It continues an ended watch from the last version.
func (b *boundWatch) take(ctx context.Context, event watch.Event, open bool) (bound bool, err error) {
	if open && event.Type != watch.Error {
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return false, fmt.Errorf("watch pods: %w", err)
		}
		b.version = object.GetResourceVersion()
		if event.Type == watch.Added {
			b.futile = 0
			b.pods[object.GetNamespace()]++
			return true, nil
		}
		return false, nil
	}
	b.cause = errors.New("closed")
	if open {
		b.cause = apierrors.FromObject(event.Object)
	}
	b.reopened++
	if b.futile++; b.futile > reopenLimit {
		return false, fmt.Errorf("%w: the watch of pods ended %d times in a row: %w", ErrSchedule, b.futile, b.cause)
	}
	b.open.Stop()
	return false, b.start(ctx)
}
