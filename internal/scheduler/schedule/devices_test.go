package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// fakeDRA has one claim, one device class and the devices of one node.
type fakeDRA struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	fwk.ResourceSliceLister
	claim   *resourceapi.ResourceClaim
	pending *resourceapi.AllocationResult
	slices  []*resourceapi.ResourceSlice
	class   *resourceapi.DeviceClass
	taken   sets.Set[structured.DeviceID]
}

// classes is a lister of one device class.
type classes struct {
	fwk.DeviceClassLister
	class *resourceapi.DeviceClass
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if c.class == nil || name != c.class.Name {
		return nil, errors.New("no such class")
	}
	return c.class, nil
}

func (d *fakeDRA) DeviceClasses() fwk.DeviceClassLister { return classes{class: d.class} }

func (d *fakeDRA) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return d.taken, nil
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

// The pod's CPUs come from the NUMA node of its device, as far as that node has free CPUs.
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

// A pod with devices in both NUMA nodes gets CPUs in both, not only as many as a single NUMA node has.
func TestDevicesOfBothNodes(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		name, claim := "n1", "gpu"
		slice := resourceapi.ResourceSliceSpec{Driver: "d", NodeName: &name, Pool: resourceapi.ResourcePool{Name: "n1"}}
		given := &resourceapi.AllocationResult{}
		for i := range int64(8) {
			numa, device := i/4, fmt.Sprint("gpu-", i)
			slice.Devices = append(slice.Devices, resourceapi.Device{
				Name: device, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{attributeNUMANode: {IntValue: &numa}},
			})
			given.Devices.Results = append(given.Devices.Results, resourceapi.DeviceRequestAllocationResult{Driver: "d", Pool: "n1", Device: device})
		}
		dra := &fakeDRA{claim: &resourceapi.ResourceClaim{}, pending: given}
		c.handle.dra = dra
		claims := func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
		}
		first, second := machine().Nodes[0].CPUs, machine().Nodes[1].CPUs
		if cpus := c.placed(c.pod("slices are late", 4, claims)); !cpus.IsSubsetOf(first) {
			t.Errorf("without slices: CPUs %s", cpus)
		}
		dra.slices = []*resourceapi.ResourceSlice{{Spec: slice}}
		if cpus := c.placed(c.pod("all", 8, claims)); cpus.Intersect(first).Size() != 4 || cpus.Intersect(second).Size() != 4 {
			t.Errorf("eight GPUs: CPUs %s", cpus)
		}
	})
}

// Before a claim is allocated, the scheduler prefers the node whose free devices share a NUMA node with free CPUs. On
// n1 the devices beside the free CPUs are taken. Devices of another class or of an unknown NUMA node are ignored, and
// no device refuses a pod.
func TestUnallocatedDevicesChooseTheNode(t *testing.T) {
	one := func(numa int64) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
		return map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{attributeNUMANode: {IntValue: &numa}}
	}
	for _, test := range []struct {
		name     string
		selector string
		taken    bool
		count    int64
		near     map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
		want     string
	}{
		{"beside the CPUs of n2 only", `device.driver == "d"`, true, 1, one(1), "n2"},
		{"beside those of both", `device.driver == "d"`, false, 1, one(1), "n1"},
		{"of another driver", `device.driver == "e"`, true, 1, one(1), "n1"},
		{"of no known NUMA node", `device.driver == "d"`, true, 1, nil, "n1"},
		{"more than any has", `device.driver == "d"`, true, 9, one(1), "n1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
				dra := &fakeDRA{
					claim: &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
						Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: test.count}}},
					}}},
					class: &resourceapi.DeviceClass{
						ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
						Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
							{CEL: &resourceapi.CELDeviceSelector{Expression: test.selector}},
						}},
					},
					taken: sets.New[structured.DeviceID](),
				}
				c.handle.dra = dra
				for _, name := range []string{"n1", "n2"} {
					c.node(name)
					c.holding("first-"+name, name, "0-7,16-23", 16) // fills the first NUMA node
					dra.slices = append(dra.slices, &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
						Driver: "d", NodeName: &name, Pool: resourceapi.ResourcePool{Name: name},
						Devices: []resourceapi.Device{{Name: "far", Attributes: one(0)}, {Name: "near", Attributes: test.near}},
					}})
				}
				c.holding("more", "n1", "8-9,24-25", 4) // without this pod both nodes score alike
				if test.taken {
					dra.taken.Insert(structured.MakeDeviceID("d", "n1", "near"))
				}
				claim := "gpu"
				a := c.filter(c.pod("p", 4, func(p *v1.Pod) {
					p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
				}))
				if !a.status.IsSuccess() || a.node != test.want {
					t.Errorf("the pod goes to %q, want %s: %v", a.node, test.want, a.refusals)
				}
			})
		})
	}
}

// A device between several NUMA nodes lists all of them. Invalid node numbers are ignored.
func TestDeviceOfSeveralNodes(t *testing.T) {
	device := &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		attributeNUMANode: {IntValues: []int64{1, 3, -1, mostNUMANodes}},
	}}
	var nodes nearDevices
	if nodes.add(device); nodes.all.String() != "1,3" || !nodes.each.IsEmpty() {
		t.Errorf("the device is in nodes %s, and in each of %s", nodes.all, nodes.each)
	}
}

// The NUMA nodes of devices are only a preference: Reserve accepts with it every pod that Filter accepts without it.
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
		near := nearDevices{all: cpuset.Set{}.Add(random.IntN(2))}
		if random.IntN(2) == 0 {
			near.all = cpuset.Set{}.Add(0).Add(1)
			near.each = near.all
		}
		if _, refused := b.decide(where, &ask, near); !refused.OK() {
			t.Fatalf("CPUs %s taken, pod %s %v: %s", taken, pod.Spec.Containers[0].Resources.Limits.Cpu(), pod.Annotations, refused.Detail())
		}
	}
}
