package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/berth-project/berth/internal/node/apiclient"
)

// The intervals of requests to the kubelet.
const (
	// askRarely is the interval while the API server answers, for static pods.
	askRarely = time.Minute
	// askOften is the interval while the API server is away.
	askOften = 2 * time.Second
	// askLeast is the shortest interval between two requests.
	askLeast = 200 * time.Millisecond
	// askLimit is the timeout of a request.
	askLimit = 5 * time.Second
)

// asker asks the kubelet for its pods.
type asker struct {
	kubelet PodLister // nil for none
	node    string
	wake    func()
	now     apiclient.Wake // requests a list, subject to askLeast

	mu   sync.Mutex
	pods []*Pod
	at   time.Time // time of the request that pods answers
	err  error
	away bool
}

func newAsker(kubelet PodLister, node string, wake func()) *asker {
	return &asker{kubelet: kubelet, node: node, wake: wake, now: make(chan struct{}, 1)}
}

// setAway sets whether the kubelet is asked often.
func (a *asker) setAway(away bool) {
	a.mu.Lock()
	changed := a.away != away
	a.away = away
	a.mu.Unlock()
	if changed && away {
		a.now.Soon()
	}
}

// last returns the kubelet's last list, the time of that request, and the error of the latest request.
func (a *asker) last() ([]*Pod, time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods, a.at, a.err
}

func (a *asker) run(ctx context.Context) {
	if a.kubelet == nil {
		return
	}
	for ctx.Err() == nil {
		a.ask(ctx)
		if !apiclient.Pause(ctx, askLeast) {
			return
		}
		a.now.Pause(ctx, a.pause()-askLeast)
	}
}

func (a *asker) pause() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away || a.at.IsZero() {
		return askOften
	}
	return askRarely
}

func (a *asker) ask(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	at := time.Now()
	list, err := a.kubelet.Pods(limited)
	var pods []*Pod
	for i := range list {
		pods = append(pods, podOf(&list[i], Kubelet, a.node))
	}
	a.mu.Lock()
	a.err = err
	if err == nil {
		a.pods, a.at = pods, at
	}
	a.mu.Unlock()
	if err == nil {
		a.wake()
	}
}
