package trial

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCPUsNextToDevice checks that a pod with a device gets the CPUs next to it, even if other CPUs would be better
// without the device. If none are left there, the pod gets the other CPUs. The device is allocated in the same cycle,
// before Berth reserves.
func TestCPUsNextToDevice(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.devices("n0", map[string]int64{"far": 1, "also-far": 1})
	c.begin()
	c.create(c.withDevice(pinned("a", 1, 8)))
	c.expect("a", "n0", "12-19", "0-1")
	c.create(c.withDevice(pinned("b", 1, 8)))
	c.expect("b", "n0", "0-7", "0-1")
	c.audit()
}

// TestNodeOfFreeDevices checks the choice of the node for a pod whose claim has no device yet. The pod goes to the node
// with free CPUs next to a device, although another node would be fuller with it.
func TestNodeOfFreeDevices(t *testing.T) {
	c := newCluster(t)
	for name, at := range map[string]int64{"n0": 0, "n1": 1} {
		c.addMachine(name, small())
		c.devices(name, map[string]int64{"card": at})
	}
	c.begin()
	for _, one := range []struct {
		name, node string
		cpus       int64
	}{{"first", "n0", 12}, {"second", "n1", 12}, {"more", "n0", 4}} {
		p := pinned(one.name, 1, one.cpus)
		p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": one.node}
		c.create(p)
		c.bound(one.name)
	}
	c.create(pinned("without", 1, 2))
	c.expect("without", "n0", "16-17", "0-1")
	c.create(c.withDevice(pinned("with", 1, 4)))
	c.expect("with", "n1", "12-15", "0-1")
	c.audit()
}

// devices publishes a node's devices; numa maps each device name to its NUMA node.
func (c *cluster) devices(node string, numa map[string]int64) {
	c.Helper()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "card"}}
	if _, err := c.client.ResourceV1().DeviceClasses().Create(c.Context(), class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		c.Fatal(err)
	}
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "card.example.com", NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}
	for name, at := range numa {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name: name,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"resource.kubernetes.io/numaNode": {IntValue: &at},
			},
		})
	}
	if _, err := c.client.ResourceV1().ResourceSlices().Create(c.Context(), slice, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// withDevice creates a claim for one device and adds it to the pod.
func (c *cluster) withDevice(p *v1.Pod) *v1.Pod {
	c.Helper()
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "card",
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "card", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			},
		}}}},
	}
	if _, err := c.client.ResourceV1().ResourceClaims(p.Namespace).Create(c.Context(), claim, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "card", ResourceClaimName: &claim.Name}}
	p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "card"}}
	return p
}
