package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/internal/node/apiclient"
)

// Controller is the author's name in the agent's events.
const Controller = "berth.dev/agent"

// The bounds of events. The API server allows 128 bytes for an author's name and 253 for an event's name.
const (
	maxAuthor = 128
	maxBase   = 230
	// maxQueue is how many events wait while the API server is away.
	maxQueue = 500
	// sameFor is how long a repeated event is counted instead of written.
	sameFor = 10 * time.Minute
	// countEvery is how often the count of an event is written.
	countEvery = time.Minute
	// Each object and reason may have a burst of texts and then one per pause, and so may the node as a whole.
	textBurst, textPause = 5, time.Minute
	nodeBurst, nodePause = 100, 200 * time.Millisecond
	eventLimit           = 5 * time.Second
)

// posted is an event that was written.
type posted struct {
	namespace, name, text string
	count                 int32
	written               int32 // the part of count that was written
	made, last, wrote     time.Time
}

// counts reports whether e increases the count of p. The text of a written event cannot be changed.
func (p *posted) counts(e Event, now time.Time) bool {
	return p != nil && now.Sub(p.last) < sameFor && (p.text == e.Text || now.Sub(p.made) < sameFor)
}

// key returns the part of an event that repetitions have in common.
func (e Event) key() Event {
	if e.Topic != "" {
		e.Text = ""
	}
	return e
}

type reason struct {
	on     Object
	reason string
}

// eventWriter writes the events of a namespace.
type eventWriter interface {
	Create(ctx context.Context, event *eventsv1.Event, options metav1.CreateOptions) (*eventsv1.Event, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*eventsv1.Event, error)
}

type poster struct {
	events func(namespace string) eventWriter
	node   string
	uid    func() string
	log    *slog.Logger
	wake   apiclient.Wake

	mu      sync.Mutex
	queue   []Event
	dropped int

	known map[Event]*posted
	texts map[reason]*rate.Limiter
	all   *rate.Limiter
}

// newPoster returns a poster; the caller sets uid.
func newPoster(events func(namespace string) eventWriter, node string, log *slog.Logger) *poster {
	return &poster{
		events: events, node: node, log: log,
		wake: make(chan struct{}, 1), known: map[Event]*posted{},
		texts: map[reason]*rate.Limiter{}, all: rate.NewLimiter(rate.Every(nodePause), nodeBurst),
	}
}

func (t *poster) add(e Event) {
	if e.On.UID == "" && e.On.Name != "" {
		e.Text = "pod " + e.On.Namespace + "/" + e.On.Name + ": " + e.Text
	}
	e.Text = apiclient.Note(e.Text)
	t.mu.Lock()
	waits := slices.IndexFunc(t.queue, func(w Event) bool { return e.Topic != "" && w.key() == e.key() })
	switch {
	case waits >= 0: // the newest text, and room for other events
		t.queue[waits] = e
	case len(t.queue) < maxQueue:
		t.queue = append(t.queue, e)
	default:
		t.dropped++
	}
	t.mu.Unlock()
	t.wake.Soon()
}

func (t *poster) run(ctx context.Context) {
	failures, forgot := 0, time.Now()
	for {
		if !t.flush(ctx) {
			failures++
			if !apiclient.Pause(ctx, backoff(failures)) { // New events wait too.
				return
			}
			continue
		}
		failures = 0
		if now := time.Now(); now.Sub(forgot) >= countEvery { // even if events never stop
			t.forget(now)
			forgot = now
		}
		if !t.wake.Pause(ctx, countEvery) {
			return
		}
	}
}

// flush writes the waiting events, and reports whether the API server accepts them.
func (t *poster) flush(ctx context.Context) bool {
	for ctx.Err() == nil {
		t.mu.Lock()
		if len(t.queue) == 0 {
			dropped := t.dropped
			t.dropped = 0
			t.mu.Unlock()
			if dropped > 0 {
				t.log.Warn("Events were dropped", "count", dropped)
			}
			return true
		}
		e := t.queue[0]
		t.mu.Unlock()
		if !t.post(ctx, e) {
			return false
		}
		t.mu.Lock()
		t.queue = t.queue[1:]
		t.mu.Unlock()
	}
	return true
}

// post writes an event, or counts it, and reports whether it is done.
func (t *poster) post(ctx context.Context, e Event) bool {
	now := time.Now()
	if known := t.known[e.key()]; known.counts(e, now) {
		known.count++
		known.last = now
		if now.Sub(known.wrote) < countEvery {
			return true
		}
		return t.recount(ctx, e, known)
	}
	if !t.allowed(now, e) {
		t.mu.Lock()
		t.dropped++
		t.mu.Unlock()
		return true
	}
	made := t.event(e, now)
	limited, cancel := context.WithTimeout(ctx, eventLimit)
	defer cancel()
	_, err := t.events(made.Namespace).Create(limited, made, metav1.CreateOptions{})
	switch {
	case err == nil:
		t.known[e.key()] = &posted{namespace: made.Namespace, name: made.Name, text: e.Text, count: 1, written: 1, made: now, last: now, wrote: now}
	case !answered(err) || apierrors.IsTooManyRequests(err):
		return false
	default: // The namespace is ending, or writes to it are forbidden: a retry cannot succeed.
		t.log.Warn("Event was refused", "reason", e.Reason, "pod", e.On.Namespace+"/"+e.On.Name, "error", err)
	}
	return true
}

// allowed prevents one pod, or one node, from flooding the cluster.
func (t *poster) allowed(now time.Time, e Event) bool {
	key := reason{e.On, e.Reason}
	if t.texts[key] == nil {
		t.texts[key] = rate.NewLimiter(rate.Every(textPause), textBurst)
	}
	return t.texts[key].AllowN(now, 1) && t.all.AllowN(now, 1)
}

// recount writes the present count of an event.
func (t *poster) recount(ctx context.Context, e Event, known *posted) bool {
	patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{
		Count: known.count, LastObservedTime: metav1.NewMicroTime(known.last),
	}})
	if err != nil {
		return true
	}
	limited, cancel := context.WithTimeout(ctx, eventLimit)
	defer cancel()
	_, err = t.events(known.namespace).Patch(limited, known.name, types.MergePatchType, patch, metav1.PatchOptions{})
	known.wrote = known.last
	if err == nil {
		known.written = known.count
	}
	if apierrors.IsNotFound(err) {
		delete(t.known, e.key()) // It expired; the next event creates a new one.
	}
	return true
}

// event returns e as an object of the API server.
func (t *poster) event(e Event, now time.Time) *eventsv1.Event {
	regarding := v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: e.On.Namespace, Name: e.On.Name, UID: types.UID(e.On.UID)}
	namespace, action := e.On.Namespace, "ApplyToPod"
	if e.On.UID == "" {
		regarding = v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: t.node, UID: types.UID(t.uid())}
		namespace, action = metav1.NamespaceDefault, "ApplyToNode"
	}
	kind := v1.EventTypeNormal
	if e.Warning {
		kind = v1.EventTypeWarning
	}
	base := regarding.Name
	if len(base) > maxBase {
		base = base[:maxBase]
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", base, now.UnixNano())},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: Controller,
		ReportingInstance:   t.node[:min(len(t.node), maxAuthor)],
		Action:              action,
		Reason:              e.Reason,
		Regarding:           regarding,
		Note:                e.Text,
		Type:                kind,
	}
}

// forget drops events that are too old to be repeated, and limiters that limit nothing.
func (t *poster) forget(now time.Time) {
	for e, known := range t.known {
		if now.Sub(known.last) >= sameFor {
			delete(t.known, e)
		}
	}
	for key, limiter := range t.texts {
		if limiter.TokensAt(now) >= textBurst {
			delete(t.texts, key)
		}
	}
}
