package schedule

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Name is the name of the plugin in a KubeSchedulerConfiguration.
const Name = "Berth"

// Plugin is the plugin of one profile. All its methods are safe for concurrent use; core is shared with the plugins of
// other profiles.
type Plugin struct {
	core   *core
	handle fwk.Handle
	rules  rules
	// current is the cycle that began last. Nearly all calls concern it, and find it here without reading the
	// CycleState.
	current atomic.Pointer[cycle]
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.PostFilterPlugin    = (*Plugin)(nil)
	_ fwk.PreScorePlugin      = (*Plugin)(nil)
	_ fwk.ScorePlugin         = (*Plugin)(nil)
	_ fwk.ScoreExtensions     = (*Plugin)(nil)
	_ fwk.ReservePlugin       = (*Plugin)(nil)
	_ fwk.BindPlugin          = (*Plugin)(nil)
	_ fwk.PostBindPlugin      = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
)

// Name returns Name.
func (p *Plugin) Name() string { return Name }

// Factory creates the plugins of all profiles of one scheduler. They share one view of the nodes: each plugin knows at
// once what another one gave out. The zero value is ready for use, and safe for concurrent use.
type Factory struct {
	// Register registers the metrics with the program's registry; nil means the registry of kube-scheduler's own
	// metrics.
	Register func(metrics.Registerable) error
	// Topologies lists and watches the NodeTopologies; nil means the API server of the handle's KubeConfig. If there is
	// no KubeConfig either, there are no NodeTopologies.
	Topologies cache.ListerWatcher
	// Strategies are the strategies of profiles, by name, whose args name none. A plugin does not see the args of the
	// others.
	Strategies map[string]v1alpha1.NUMAAllocateStrategy

	mu    sync.Mutex
	cores map[informers.SharedInformerFactory]*core
}

// New returns the plugin of one profile, with args as its SchedulerArgs. What it starts ends with ctx. It fails on
// invalid args, with an ErrInvalid of v1alpha1, and on informers that cannot be watched.
func (f *Factory) New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	a, err := decodeArgs(args, f.Strategies[handle.ProfileName()])
	if err != nil {
		return nil, fmt.Errorf("args of the plugin %s: %w", Name, err)
	}
	c, err := f.coreFor(ctx, handle, a)
	if err != nil {
		return nil, err
	}
	p := &Plugin{core: c, handle: handle, rules: rulesOf(a)}
	c.usage.allow(p.rules)
	return p, nil
}

// coreFor returns the core that the profiles of one scheduler, with the same informers, share. For the Leases, the args
// of the first profile apply.
func (f *Factory) coreFor(ctx context.Context, handle fwk.Handle, a v1alpha1.SchedulerArgs) (*core, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := handle.SharedInformerFactory()
	if c := f.cores[key]; c != nil {
		return c, nil
	}
	register := f.Register
	if register == nil {
		register = legacyregistry.Register
	}
	c := newCore(handle, a, newMeters(register))
	if err := c.start(ctx, f.Topologies); err != nil {
		return nil, err
	}
	if f.cores == nil {
		f.cores = map[informers.SharedInformerFactory]*core{}
	}
	f.cores[key] = c
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.cores, key)
	})
	return c, nil
}
