package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/burst/quota"
	"github.com/berth-project/berth/internal/capability/isolate/offline"
	"github.com/berth-project/berth/internal/capability/localize"
	"github.com/berth-project/berth/internal/capability/place/pin"
	"github.com/berth-project/berth/internal/capability/place/self"
	"github.com/berth-project/berth/internal/capability/tune/drift"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/groups"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/statedir"
	"github.com/berth-project/berth/internal/value/unit"
)

// A capability may implement some of the following interfaces. The agent calls their methods with the mutex held, except
// Run, and Join before it starts.
type (
	// worker also runs beside the loop, until the agent ends.
	worker interface {
		Run(ctx context.Context) error
	}
	// waker is due between two rounds.
	waker interface {
		// Next returns when it is due, at most the given time.
		Next(most time.Duration) time.Duration
	}
	// pacer also works between two rounds.
	pacer interface {
		// Turn does what is due, and reports whether the next round is due at once.
		Turn(now time.Duration) bool
	}
	// looker checks groups when they are due, each in a step of the loop of its own.
	looker interface {
		// Due finds the groups to check now, and returns their number. Look checks one of them, and decides.
		Due(now time.Duration) int
		Look(i int)
	}
	// quotaMover decides values of quotas that are written once, at once: a write refills the group's pool, and only the
	// capability knows when that is paid for. The agent asks for them after Decide, Look and Yield.
	quotaMover interface {
		// Moves returns the moves since the last Wrote, and Wrote records how they ended.
		Moves() []reconcile.Move
		Wrote(now time.Duration)
		// Unasked reports whether nobody asks for a journaled value of such a quota any more.
		Unasked(e journal.Entry) bool
	}
	// answerer answers the container runtime. Without final it may return inventory.ErrUnknownPod.
	answerer interface {
		Answer(e nri.Event, final bool) (nri.Reply, error)
	}
	// joiner learns that the node is part of a cluster.
	joiner interface {
		Join(pods pin.Pods)
	}
	// yielder restores the limits of a pod that the kubelet is about to resize.
	yielder interface {
		Yield(podUID string)
	}
	// shrinker moves the agent's own threads before each pass.
	shrinker interface {
		Shrink()
	}
	// observer learns what each pass finds.
	observer interface {
		Saw(now time.Duration, found *reconcile.Report)
	}
	// conditioner adds conditions to the status of the node.
	conditioner interface {
		AddConditions(status *v1alpha1.NodeTopologyStatus)
	}
	// rememberer drops what it remembers of workloads that are gone, before each checkpoint.
	rememberer interface {
		Forget(podsKnown bool)
	}
	// ender desires nothing any more because the agent ends.
	ender interface {
		End()
	}
	// closer ends after its values were restored.
	closer interface {
		// Ended records which values were restored. Close releases the groups.
		Ended()
		Close()
	}
)

// What the capabilities implement. A method with another signature would not be called.
var (
	_ worker      = (*localize.Groups)(nil)
	_ worker      = (*drift.Watch)(nil)
	_ waker       = (*offline.Work)(nil)
	_ pacer       = (*offline.Work)(nil)
	_ observer    = (*offline.Work)(nil)
	_ conditioner = (*offline.Work)(nil)
	_ ender       = (*offline.Work)(nil)
	_ answerer    = (*pin.Sets)(nil)
	_ joiner      = (*pin.Sets)(nil)
	_ shrinker    = (*pin.Sets)(nil)
	_ observer    = (*pin.Sets)(nil)
	_ conditioner = (*pin.Sets)(nil)
	_ waker       = (*quota.Groups)(nil)
	_ looker      = (*quota.Groups)(nil)
	_ quotaMover  = (*quota.Groups)(nil)
	_ yielder     = (*quota.Groups)(nil)
	_ rememberer  = (*quota.Groups)(nil)
	_ closer      = (*quota.Groups)(nil)
)

// pageMover moves the pages of groups.
type pageMover = localize.Mover

// built are the capabilities that the agent makes before the list of all. Only this file names them.
type built struct {
	offline *offline.Work // the cores of offline work
	pins    *pin.Sets     // the CPU sets of the assignment
	burst   *quota.Groups // the quotas of the workload groups
}

// mustAnswer reports whether the runtime must not make a container without an answer.
func mustAnswer(e nri.Event) bool { return pin.MustAnswer(e) }

// inProfiles returns a function that returns an error for a target that the journal of host profiles has, or may have.
// unknown receives why that journal cannot be read.
func inProfiles(o Options, unknown func(error)) func(plan.Target) error {
	return drift.Held(o.Config.StateDir, o.BootID, o.boottime, unknown)
}

// heldByProfile returns a function that returns an error for a target that the journal of host profiles has. If that
// journal cannot be read, inProfiles has stopped the list before it was recorded.
func heldByProfile(o Options) func(plan.Target) error {
	has := inProfiles(o, func(error) {})
	return func(t plan.Target) error {
		if err := has(t); errors.Is(err, drift.ErrHeld) {
			return err
		}
		return nil
	}
}

// each calls do for each capability that implements T, in their order.
func each[T any](c *controller, do func(T)) {
	for _, one := range c.capabilities {
		if of, implements := one.(T); implements {
			do(of)
		}
	}
}

// capabilitiesOf returns the capabilities of an agent, in the order in which they decide. It is the only such list.
func capabilitiesOf(c *controller) []capability.Capability {
	o := c.opts
	return append([]capability.Capability{
		localize.New(localize.Options{
			Root: o.Root, Host: c.host, Clock: o.Clock, Now: o.Now, Log: o.Log, Mover: o.mover, Changed: func() { c.turns.nextCheckpoint = 0 },
		}),
		c.built.offline,
		c.built.pins,
		c.built.burst,
		drift.New(drift.Options{
			Root: o.Root, Kernel: tuner.KernelOf(o.Root), Boot: o.BootID, Groups: c.host, Now: o.Now, Boottime: kernel.Boottime, Keep: o.KeepProfile,
			Spaces: drift.SpacesOf(o.Root),
		}),
	}, o.more...)
}

// newWork returns the half of isolate that the agent has: the cores of offline work.
func newWork(c *controller, all *groups.Groups) *offline.Work {
	return offline.New(offline.Options{
		Root: c.opts.Root, Host: c.host, Placed: c.assignment.Snapshot, Groups: all,
		Now: c.opts.Now, Log: c.opts.Log, Fail: c.counts.fail,
		Standing: all.Journal.Select, Usage: c.documents.roster.Usage,
	})
}

// newSets returns the half of place that the agent has: the CPU sets of the assignment.
func newSets(c *controller, all *groups.Groups) *pin.Sets {
	sealed, err := c.host.Sealed()
	if err != nil {
		c.opts.Log.Warn("whether the agent's own group can be written is not known", "error", err)
	}
	return pin.New(pin.Options{
		Root: c.opts.Root, Host: c.host, Log: c.opts.Log, Groups: all, Self: self.Self{Host: c.host, Sealed: sealed},
		Answers:  statedir.NewAnswers(c.opts.Config.StateDir, c.opts.BootID),
		Hardware: c.hardware, Fail: c.counts.fail, MayChange: c.opts.narrowing.May, Reconciler: urgently{c},
	}, c.inventory, c.assignment)
}

// newQuotas returns the half of burst that the agent has: the quotas of the workload groups.
func newQuotas(c *controller) *quota.Groups {
	return quota.New(quota.Options{
		Root: c.opts.Root, Host: c.host, Clock: c.opts.Clock, Now: c.opts.Now, Log: c.opts.Log,
		Slice: func() unit.Micros { return c.opts.facts.slice }, Tick: c.opts.facts.tick, Limited: limited(c),
		Fail: c.counts.fail, Late: c.counts.work.Late, Changed: func() { c.turns.nextCheckpoint = 0 },
	}, c.documents.roster, &c.reconciler.Quotas().Watch)
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
