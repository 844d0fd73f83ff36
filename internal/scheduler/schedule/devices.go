package schedule

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// attributeNUMANode is the attribute in which drivers of all kinds publish the NUMA node of a device. KEP-6072 gives it
// this name and the type int; by KEP-5491 a device may list several NUMA nodes.
const attributeNUMANode resourceapi.QualifiedName = "resource.kubernetes.io/numaNode"

// mostNUMANodes bounds the node ids that are accepted.
const mostNUMANodes = 1024

// nearDevices are the NUMA nodes of a pod's devices: all of them, and the nodes of devices with exactly one node.
type nearDevices struct{ all, each cpuset.Set }

// deviceNodes returns the NUMA nodes of the devices that the pod's claims have, or will have once DynamicResources
// carries out its reservations. It is empty if no device names one. Unreadable objects are left out, since this is only
// a preference.
func (p *Plugin) deviceNodes(pod *v1.Pod, nodeName string) nearDevices {
	var nodes nearDevices
	if len(pod.Spec.ResourceClaims) == 0 {
		return nodes
	}
	manager := p.handle.SharedDRAManager()
	if manager == nil {
		return nodes
	}
	devices := allocatedTo(pod, manager)
	if len(devices) == 0 {
		return nodes
	}
	slices, err := manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nodes
	}
	for _, slice := range slices {
		if slice.Spec.NodeName != nil && *slice.Spec.NodeName != nodeName {
			continue
		}
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if devices.Has(structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)) {
				nodes.add(device)
			}
		}
	}
	return nodes
}

func (n *nearDevices) add(device *resourceapi.Device) {
	attribute := device.Attributes[attributeNUMANode]
	ids := attribute.IntValues
	if attribute.IntValue != nil {
		ids = []int64{*attribute.IntValue}
	}
	for _, id := range ids {
		if id < 0 || id >= mostNUMANodes {
			continue
		}
		if n.all = n.all.Add(int(id)); len(ids) == 1 {
			n.each = n.each.Add(int(id))
		}
	}
}

// allocatedTo returns the devices of the pod's claims.
func allocatedTo(pod *v1.Pod, manager fwk.SharedDRAManager) sets.Set[structured.DeviceID] {
	claims, devices := manager.ResourceClaims(), sets.Set[structured.DeviceID]{}
	for i := range pod.Spec.ResourceClaims {
		name := claimName(pod, &pod.Spec.ResourceClaims[i])
		if name == "" {
			continue
		}
		claim, err := claims.Get(pod.Namespace, name)
		if err != nil {
			continue
		}
		allocation := claim.Status.Allocation
		if pending := claims.GetPendingAllocation(claim.UID); pending != nil {
			allocation = pending
		}
		if allocation == nil {
			continue
		}
		for _, result := range allocation.Devices.Results {
			devices.Insert(structured.MakeDeviceID(result.Driver, result.Pool, result.Device))
		}
	}
	return devices
}

// claimName returns the name of a claim of a pod, "" for a claim that does not exist yet.
func claimName(pod *v1.Pod, claim *v1.PodResourceClaim) string {
	if claim.ResourceClaimName != nil {
		return *claim.ResourceClaimName
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.Name == claim.Name && status.ResourceClaimName != nil {
			return *status.ResourceClaimName
		}
	}
	return ""
}
