package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/kubepod"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
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

// A device between several NUMA nodes lists them.
func TestDeviceOfSeveralNodes(t *testing.T) {
	device := &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		attributeNUMANode: {IntValues: []int64{1, 3, -1, mostNUMANodes}},
	}}
	if nodes := addNode(cpuset.Set{}, device); nodes.String() != "1,3" {
		t.Errorf("the device is in nodes %s", nodes)
	}
}

// The NUMA nodes of devices are a preference: what Filter finds without it
// Reserve finds too.
func TestPreferenceRefusesNothing(t *testing.T) {
	m := must(alloc.Compile(machine()))(t)
	random := rand.New(rand.NewPCG(1, 2))
	c := &cluster{t: t}
	var b bench
	for i := range 20000 {
		var taken cpuset.Set
		for cpu := range 32 {
			if random.IntN(3) == 0 {
				taken = taken.Add(cpu)
			}
		}
		var options []option
		switch random.IntN(3) {
		case 0:
			options = append(options, annotated(resourceSpec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`))
		case 1:
			options = append(options, annotated(resourceSpec, `{"preferredCPUExclusivePolicy":"PCPULevel","preferredCPUBindPolicy":"SpreadByPCPUs"}`))
		}
		pod := c.spec(fmt.Sprint("p", i), 1+random.IntN(12), options...)
		pin, _ := workload.PinningOf(kubepod.Of(pod))
		ask := placement.AskOf(pin)
		b.occupancy = placement.Occupancy{}
		m.Hold(&b.occupancy.Taken, alloc.Holding{CPUs: taken})
		where := placement.Node{Machine: m, AllocatableMilli: 32000, RequestedMilli: int64(taken.Size())*1000 + int64(random.IntN(16000))}
		if _, refused := placement.Decide(&b.scratch, where, &b.occupancy, &ask); !refused.OK() {
			continue
		}
		if _, refused := b.decide(where, &ask, cpuset.Set{}.Add(random.IntN(2))); !refused.OK() {
			t.Fatalf("CPUs %s taken, pod %s %v: %s", taken, pod.Spec.Containers[0].Resources.Limits.Cpu(), pod.Annotations, refused.Detail())
		}
	}
}
