package schedule

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/topology"
)

// mostSelectors bounds the cache of compiled device selectors.
const mostSelectors = 128

// claimed is what the unallocated claims of a pod ask for, and the devices of the cluster. DynamicResources decides in
// Reserve which devices the pod gets. Before that, the plugin can only count what each node has left.
type claimed struct {
	ctx    context.Context
	wanted []wantedDevices
	slices map[string][]*resourceapi.ResourceSlice // by node
	taken  sets.Set[structured.DeviceID]

	mu      sync.Mutex
	perNode map[string]*placement.Claims
}

// wantedDevices is one request: a number of devices that match all selectors.
type wantedDevices struct {
	count     int64
	selectors []cel.CompilationResult
}

// claimedBy reads the claims of a pod that have no devices yet. It returns nil if there are none, or if none asks for a
// number of devices of a class.
func (p *Plugin) claimedBy(ctx context.Context, pod *v1.Pod) *claimed {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	manager := p.handle.SharedDRAManager()
	if manager == nil {
		return nil
	}
	all := &claimed{ctx: ctx, slices: map[string][]*resourceapi.ResourceSlice{}}
	for i := range pod.Spec.ResourceClaims {
		claim, err := manager.ResourceClaims().Get(pod.Namespace, claimName(pod, &pod.Spec.ResourceClaims[i]))
		if err != nil || claim.Status.Allocation != nil || manager.ResourceClaims().GetPendingAllocation(claim.UID) != nil {
			continue
		}
		for j := range claim.Spec.Devices.Requests {
			if one, known := p.wanted(claim.Spec.Devices.Requests[j].Exactly, manager.DeviceClasses()); known {
				all.wanted = append(all.wanted, one)
			}
		}
	}
	if len(all.wanted) == 0 || !all.look(manager) {
		return nil
	}
	return all
}

// look reads the devices of the nodes, and the set of allocated devices.
func (c *claimed) look(manager fwk.SharedDRAManager) bool {
	taken, err := manager.ResourceClaims().ListAllAllocatedDevices()
	if err != nil {
		return false
	}
	all, err := manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return false
	}
	c.taken = taken
	for _, slice := range all {
		if slice.Spec.NodeName != nil {
			c.slices[*slice.Spec.NodeName] = append(c.slices[*slice.Spec.NodeName], slice)
		}
	}
	return true
}

// wanted reads a request. The result is unknown for a request that leaves a choice, asks for all devices, or has a
// selector that does not compile.
func (p *Plugin) wanted(request *resourceapi.ExactDeviceRequest, classes fwk.DeviceClassLister) (wantedDevices, bool) {
	if request == nil || request.AllocationMode == resourceapi.DeviceAllocationModeAll {
		return wantedDevices{}, false
	}
	class, err := classes.Get(request.DeviceClassName)
	if err != nil {
		return wantedDevices{}, false
	}
	one := wantedDevices{count: max(request.Count, 1)}
	for _, list := range [][]resourceapi.DeviceSelector{class.Spec.Selectors, request.Selectors} {
		for _, selector := range list {
			if selector.CEL == nil {
				return wantedDevices{}, false
			}
			compiled := p.core.selectors.GetOrCompile(selector.CEL.Expression)
			if compiled.Error != nil {
				return wantedDevices{}, false
			}
			one.selectors = append(one.selectors, compiled)
		}
	}
	return one, true
}

// match reports whether a device matches all selectors.
func (w *wantedDevices) match(ctx context.Context, driver string, device *resourceapi.Device) bool {
	for _, selector := range w.selectors {
		matches, _, err := selector.DeviceMatches(ctx, cel.Device{Driver: driver, Attributes: device.Attributes, Capacity: device.Capacity})
		if err != nil || !matches {
			return false
		}
	}
	return true
}

// on returns how many of the desired devices each NUMA node of a node has left. It omits a request if a matching device
// is in no NUMA node, or in several. The caller holds n.mu.
func (c *claimed) on(n *node) *placement.Claims {
	if c == nil || n.machine == nil {
		return nil
	}
	t := n.machine.Topology()
	if known := c.known(n.name); known != nil {
		return known
	}
	var claims placement.Claims
	for i := range c.wanted {
		amount := alloc.Amount{Device: true, Want: c.wanted[i].count, Free: make([]int64, len(t.Nodes))}
		if c.count(&c.wanted[i], n.name, t, amount.Free) {
			claims = append(claims, amount)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.perNode == nil {
		c.perNode = map[string]*placement.Claims{}
	}
	c.perNode[n.name] = &claims
	return &claims
}

// known returns the earlier count for a node, nil for none.
func (c *claimed) known(node string) *placement.Claims {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.perNode[node]
}

// count adds up by NUMA node the free devices of a node that match one request. It reports whether any device matches
// and each one is known to be in exactly one NUMA node.
func (c *claimed) count(w *wantedDevices, node string, t *topology.Topology, left []int64) bool {
	some := false
	for _, slice := range c.slices[node] {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if !w.match(c.ctx, slice.Spec.Driver, device) {
				continue
			}
			var near nearDevices
			near.add(device)
			at := slices.IndexFunc(t.Nodes, func(n topology.Node) bool { return near.each.Contains(int(n.ID)) })
			if at < 0 {
				return false
			}
			if some = true; !c.taken.Has(structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)) {
				left[at]++
			}
		}
	}
	return some
}
