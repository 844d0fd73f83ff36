package transport

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/node/nri"
)

// agent imitates the node agent: it gives the answers that the test sets, and records the events.
type agent struct {
	plugin *nri.Plugin

	mu     sync.Mutex
	answer func(context.Context, nri.Event) (nri.Reply, error)
	events []nri.Event
	waits  []time.Duration
}

// Observe records how many seconds the runtime waited for an answer.
func (a *agent) Observe(seconds float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = append(a.waits, time.Duration(seconds*float64(time.Second)))
}

// waited returns how long the runtime waited for answers, in ascending order.
func (a *agent) waited() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(slices.Values(a.waits))
}

func (a *agent) Handle(ctx context.Context, e nri.Event) (nri.Reply, error) {
	a.mu.Lock()
	a.events = append(a.events, e)
	answer := a.answer
	a.mu.Unlock()
	if answer == nil {
		return nri.Reply{}, nil
	}
	return answer(ctx, e)
}

// says sets the agent's answer from now on.
func (a *agent) says(answer func(context.Context, nri.Event) (nri.Reply, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// seen returns the events of a container, in order.
func (a *agent) seen(id string) []nri.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	var events []nri.Event
	for _, e := range a.events {
		if e.Container.ID == id {
			events = append(events, e)
		}
	}
	return events
}

// kinds returns the kinds of the events of a container.
func (a *agent) kinds(id string) []nri.Kind {
	var kinds []nri.Kind
	for _, e := range a.seen(id) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// last returns the last event of a kind.
func (a *agent) last(k nri.Kind) (nri.Event, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range slices.Backward(a.events) {
		if e.Kind == k {
			return e, true
		}
	}
	return nri.Event{}, false
}

// agent connects an agent to the node's runtime.
func (n *node) agent(change ...func(*nri.Options)) *agent {
	t := n.t
	t.Helper()
	a := &agent{}
	o := nri.Options{Socket: n.nri(), Handler: a, Groups: n.host, Log: logger(t)}
	for _, c := range change {
		c(&o)
	}
	n.connect(a, o)
	return a
}

// connect runs an agent's plugin until the test ends, and waits until it is connected.
func (n *node) connect(a *agent, o nri.Options) {
	t := n.t
	t.Helper()
	o.Waits = a
	plugin, err := nri.New(o)
	if err != nil {
		t.Fatal(err)
	}
	a.plugin = plugin
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- plugin.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	a.connected(t, 1)
}

// connected waits until the agent is connected and has connected at least so many times.
func (a *agent) connected(t *testing.T, times int) {
	t.Helper()
	eventually(t, "the runtime to take the plugin", func() bool {
		s := a.plugin.Status()
		return s.State == nri.Connected && s.Connections >= times
	})
}

// pin answers for a small node: a container called pinned gets CPU 1 and no quota, and the others, which the agent
// knows by id, get the remaining CPUs.
func pin(t *testing.T, others ...string) func(context.Context, nri.Event) (nri.Reply, error) {
	_, left := online(t)
	one, rest, mems := set(t, "1"), set(t, left), set(t, "0")
	return func(_ context.Context, e nri.Event) (nri.Reply, error) {
		if e.Kind != nri.Create || e.Container.Name != "pinned" {
			return nri.Reply{}, nil
		}
		reply := nri.Reply{Adjust: nri.Settings{CPUs: one, Mems: mems, NoQuota: true}}
		for _, id := range others {
			reply.Updates = append(reply.Updates, nri.Change{ContainerID: id, Settings: nri.Settings{CPUs: rest}})
		}
		return reply, nil
	}
}
