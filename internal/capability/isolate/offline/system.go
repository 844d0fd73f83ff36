package offline

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/unit"
)

// system measures the use outside pods and workloads, which Berth does not change and shows separately.
type system struct {
	isolate.System

	// next is when the next reading is due, 0 without offline work. Readings are so rare that their cost is negligible.
	next time.Duration
}

// lookAtSystem reads the use, if due and if there is offline work.
func (w *Work) lookAtSystem(n *capability.Node) {
	switch {
	case !w.on() || !anyHere(n.OfflinePods):
		w.system = system{}
		return
	case n.Now < w.system.next:
		return
	}
	w.system.next = n.Now + isolate.Window
	busy, err := kernel.CPUBusy(w.opts.Root)
	used, unread := w.managed(append(onlineOf(n.Present), n.OfflinePods...))
	if err = cmp.Or(err, unread); err != nil {
		w.system.System = isolate.System{Unknown: err.Error()}
		return
	}
	w.system.Look(n.Now, busy, used)
}

// managed returns the CPU time of the groups that together contain all of the given work.
func (w *Work) managed(work []observed.Pod) (map[string]unit.CPUTime, error) {
	groups, err := isolate.Managed(work)
	if err != nil {
		return nil, err
	}
	used := map[string]unit.CPUTime{}
	for _, group := range groups {
		if used[group], err = w.opts.Usage(group); err != nil {
			return nil, fmt.Errorf("use of %s: %w", group, err)
		}
	}
	return used, nil
}

// report returns what is shown, nil without offline work.
func (s *system) report() *isolate.System {
	if s.next == 0 {
		return nil
	}
	return new(s.System)
}
