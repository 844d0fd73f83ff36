package agent

import (
	"context"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/drift"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/localize"
	"github.com/berth-project/berth/internal/plan"
)

// worker is a capability that also runs beside the loop, without its mutex, until the agent ends.
type worker interface {
	Run(ctx context.Context) error
}

// capabilitiesOf returns the capabilities of an agent, in the order in which they decide. It is the only such list.
func capabilitiesOf(c *controller) []capability.Capability {
	o := c.opts
	return append([]capability.Capability{
		localize.New(localize.Options{
			Root: o.Root, Host: c.host, Clock: o.Clock, Now: o.Now, Log: o.Log, Mover: o.mover, Changed: func() { c.nextCheckpoint = 0 },
		}),
		c.offline,
		c.pins,
		c.burst,
		drift.New(drift.Options{Root: o.Root, Boot: o.BootID, Groups: c.host, Now: o.Now, Boottime: kernel.Boottime, Keep: o.KeepProfile}),
	}, o.more...)
}

// Capabilities returns what is known of each capability without an agent, by name, as status and explain print it.
func Capabilities() []capability.Info { return infosOf(Options{}) }

func infosOf(opts Options) []capability.Info {
	var all []capability.Info
	for _, one := range byName(capabilitiesOf(&controller{opts: opts})) {
		all = append(all, one.Describe())
	}
	return all
}

// byName returns the capabilities in the order of their reports.
func byName(all []capability.Capability) []capability.Capability {
	return slices.SortedFunc(slices.Values(all), func(a, b capability.Capability) int {
		return strings.Compare(a.Describe().Name, b.Describe().Name)
	})
}

// settled returns the owners of the capabilities' desired settings, without the owner whose settings change at each
// check.
func (o *Options) settled() []plan.Owner {
	return slices.DeleteFunc(capability.OwnersOf(infosOf(*o)), func(w plan.Owner) bool { return w == plan.OwnerBurst })
}
