package offline

import (
	"log/slog"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/hostfs"
)

// Options is what Work needs from its surroundings. Every field is required.
type Options struct {
	Root *hostfs.Root
	Host Prober
	// Clock is monotonic and counts from boot, Now is the time of day.
	Clock func() time.Duration
	Now   func() time.Time
	Log   *slog.Logger
}

// Work is the offline work of this node. It is for one goroutine at a time.
type Work struct {
	opts        Options
	precedences precedences
}

// New returns Work of which nothing is known. Without options it only describes itself.
func New(o Options) *Work {
	return &Work{opts: o, precedences: precedences{host: o.Host, root: o.Root, date: o.Now}}
}

// Decide implements capability.Decider.
func (w *Work) Decide(n *capability.Node) capability.Decision { return w.precedences.decide(n) }
