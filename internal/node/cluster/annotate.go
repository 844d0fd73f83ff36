package cluster

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// annotateLimit is the timeout of a request.
const annotateLimit = 5 * time.Second

// note names one annotation of one pod.
type note struct {
	pod Object
	key string
}

// desired is the desired value of an annotation.
type desired struct {
	value    *string // nil to remove it
	due      time.Time
	failures int
}

// podPatcher patches the pods of a namespace.
type podPatcher interface {
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*v1.Pod, error)
}

type annotator struct {
	pods func(namespace string) podPatcher
	held func() bool
	log  *slog.Logger
	wake apiclient.Wake

	mu      sync.Mutex
	desired map[note]*desired
}

func (a *annotator) want(pod Object, key string, value *string) {
	if pod.UID == "" {
		return
	}
	a.mu.Lock()
	a.desired[note{pod, key}] = &desired{value: value}
	a.mu.Unlock()
	a.wake.Soon()
}

func (a *annotator) run(ctx context.Context) {
	for a.wake.Pause(ctx, a.step(ctx)) {
	}
}

// step writes what is due and returns the time until the next annotation is due.
func (a *annotator) step(ctx context.Context) time.Duration {
	if !a.held() {
		return retryMax
	}
	for ctx.Err() == nil {
		n, w := a.next(time.Now())
		if w == nil {
			return a.pause(time.Now())
		}
		a.done(n, w, a.write(ctx, n, w.value))
	}
	return retryMax
}

// next returns a desired annotation that is due and need not wait.
func (a *annotator) next(now time.Time) (note, *desired) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, w := range a.desired {
		if !w.due.After(now) && !a.waits(n) {
			return n, w
		}
	}
	return note{}, nil
}

// waits reports whether an annotation waits for another annotation of its pod. A move annotation remains until the
// placement with its result is written, so that the CPUs on both sides of the move count as allocated.
func (a *annotator) waits(n note) bool {
	return n.key == v1alpha1.AnnotationMove && a.desired[note{n.pod, v1alpha1.AnnotationPlacement}] != nil
}

func (a *annotator) pause(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	pause := retryMax
	for n, w := range a.desired {
		if !a.waits(n) {
			pause = min(pause, max(w.due.Sub(now), time.Millisecond))
		}
	}
	return pause
}

// done forgets a desired annotation that is written or can never be written, unless a newer one replaced it.
func (a *annotator) done(n note, w *desired, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.desired[n] != w {
		return
	}
	// The pod is gone, or another pod has its name.
	gone := apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err)
	if err == nil || gone {
		delete(a.desired, n)
	}
	if err == nil {
		return
	}
	w.failures++
	w.due = time.Now().Add(backoff(w.failures))
	if w.failures == 1 && answered(err) && !apierrors.IsNotFound(err) {
		a.log.Warn("Annotation cannot be written", "pod", n.pod.Namespace+"/"+n.pod.Name, "annotation", n.key, "again", !gone, "error", err)
	}
}

// write patches the status of the pod, which can change annotations without the right to change pods. The UID in the
// patch must match that of the pod.
func (a *annotator) write(ctx context.Context, n note, value *string) error {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.pod.UID, "annotations": map[string]any{n.key: value},
	}})
	if err != nil {
		return err //nolint:wrapcheck // Strings can always be written.
	}
	limited, cancel := context.WithTimeout(ctx, annotateLimit)
	defer cancel()
	_, err = a.pods(n.pod.Namespace).Patch(limited, n.pod.Name, types.MergePatchType, text, metav1.PatchOptions{}, "status")
	return err
}
