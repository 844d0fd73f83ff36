package schedule

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// fakeDRA has one claim and the devices of one node.
type fakeDRA struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	fwk.ResourceSliceLister
	claim   *resourceapi.ResourceClaim
	pending *resourceapi.AllocationResult
	slices  []*resourceapi.ResourceSlice
}

func (d *fakeDRA) ResourceClaims() fwk.ResourceClaimTracker { return d }
func (d *fakeDRA) ResourceSlices() fwk.ResourceSliceLister  { return d }

func (d *fakeDRA) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	if name != "gpu" {
		return nil, errors.New("no such claim")
	}
	return d.claim, nil
}

func (d *fakeDRA) GetPendingAllocation(types.UID) *resourceapi.AllocationResult { return d.pending }

func (d *fakeDRA) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return d.slices, nil
}

// The CPUs come from the NUMA node of the pod's device, as far as there are any.
func TestDevicesArePreferred(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		name, one := "n1", int64(1)
		allocation := &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "d", Pool: "n1", Device: "gpu-1"}},
		}}
		dra := &fakeDRA{
			claim: &resourceapi.ResourceClaim{},
			slices: []*resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{
				Driver: "d", NodeName: &name, Pool: resourceapi.ResourcePool{Name: "n1"},
				Devices: []resourceapi.Device{
					{Name: "gpu-0"},
					{Name: "gpu-1", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{attributeNUMANode: {IntValue: &one}}},
				},
			}}},
		}
		c.handle.dra = dra
		claim := "gpu"
		claims := func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
		}
		first, second := machine().Nodes[0].CPUs, machine().Nodes[1].CPUs
		if cpus := c.placed(c.pod("nothing allocated", 2, claims)); !cpus.IsSubsetOf(first) {
			t.Errorf("without an allocation: CPUs %s", cpus)
		}
		dra.pending = allocation
		if cpus := c.placed(c.pod("pending", 4, claims)); !cpus.IsSubsetOf(second) {
			t.Errorf("with a pending allocation: CPUs %s", cpus)
		}
		dra.pending, dra.claim.Status.Allocation = nil, allocation
		if cpus := c.placed(c.pod("allocated", 4, claims)); !cpus.IsSubsetOf(second) {
			t.Errorf("with an allocation: CPUs %s", cpus)
		}
		if cpus := c.placed(c.pod("too large", 14, claims)); cpus.IsSubsetOf(second) {
			t.Errorf("more CPUs than the device's node has: %s", cpus)
		}
	})
}
