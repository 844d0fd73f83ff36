package offline

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/isolate"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/unit"
)

// system measures what runs outside of pods and workloads, which is untouched and shown apart.
type system struct {
	isolate.System

	// next is when the next look is due, 0 where there is no offline work. Looks are so far apart that
	// they cost a group nothing to speak of.
	next time.Duration
}

// lookAtSystem measures it, where that is due and there is offline work.
func (w *Work) lookAtSystem(n *capability.Node) {
	present, offline := w.opts.Inventory.Here()
	switch {
	case !w.on() || !anyHere(offline):
		w.system = system{}
		return
	case n.Now < w.system.next:
		return
	}
	w.system.next = n.Now + isolate.Window
	busy, err := kernel.CPUBusy(w.opts.Root)
	used, unread := w.managed(append(onlineOf(present), offline...))
	if err = cmp.Or(err, unread); err != nil {
		w.system.System = isolate.System{Unknown: err.Error()}
		return
	}
	w.system.Look(n.Now, busy, used)
}

// managed returns the CPU time of the groups that have all of some work.
func (w *Work) managed(work []isolate.Work) (map[string]unit.CPUTime, error) {
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

// report is what is shown of it, nil where there is no offline work.
func (s *system) report() *isolate.System {
	if s.next == 0 {
		return nil
	}
	return new(s.System)
}
