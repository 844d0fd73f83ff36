package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// resourcesSocket is the socket of the kubelet's PodResources API in its directory.
const resourcesSocket = "pod-resources/kubelet.sock"

// Device is the number of devices of a resource in one NUMA node that the kubelet may allocate.
type Device struct {
	Resource string
	Node     int
	Count    int64
}

// Devices asks the kubelet's PodResources API for the devices that it may allocate, by resource and NUMA node. It omits
// a resource with a device in no NUMA node, or in several. Without a socket the error is ErrNoState.
func (s Source) Devices(ctx context.Context) (devices []Device, err error) {
	err = s.ask(ctx, func(ctx context.Context, api podresources.PodResourcesListerClient) error {
		answer, err := api.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
		devices = devicesOf(answer.GetDevices())
		return err //nolint:wrapcheck // below, with the socket
	})
	if err != nil {
		return nil, fmt.Errorf("devices of the kubelet: %w", err)
	}
	return devices, nil
}

// ask sends a question to the kubelet's PodResources API.
func (s Source) ask(ctx context.Context, question func(context.Context, podresources.PodResourcesListerClient) error) error {
	socket := filepath.Join(s.Dir, resourcesSocket)
	if _, err := os.Stat(socket); err != nil {
		return fmt.Errorf("%w: %w", ErrNoState, err)
	}
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket's mode controls access
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(answerLimit)),
	)
	if err != nil {
		return fmt.Errorf("%s: %w", socket, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	if err := question(ctx, podresources.NewPodResourcesListerClient(conn)); err != nil {
		return fmt.Errorf("%s: %w", socket, err)
	}
	return nil
}

// devicesOf counts devices by resource and NUMA node.
func devicesOf(all []*podresources.ContainerDevices) []Device {
	type place struct {
		resource string
		node     int
	}
	counts, elsewhere := map[place]int64{}, map[string]bool{}
	for _, some := range all {
		name, nodes := some.GetResourceName(), some.GetTopology().GetNodes()
		if len(nodes) != 1 {
			elsewhere[name] = true
			continue
		}
		counts[place{name, int(nodes[0].GetID())}] += int64(len(some.GetDeviceIds()))
	}
	var devices []Device
	for at, count := range counts {
		if count > 0 && !elsewhere[at.resource] {
			devices = append(devices, Device{at.resource, at.node, count})
		}
	}
	slices.SortFunc(devices, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), a.Node-b.Node)
	})
	return devices
}

// keepGone is how many readings a resource survives that the kubelet no longer lists. After a restart the kubelet lists
// devices only when their plugins have registered again.
const keepGone = 6

// TakeDevices records the devices of a reading, and reports whether they changed. While the kubelet does not answer,
// its last answer remains.
func (k *Knowledge) TakeDevices(r Reading) (changed bool) {
	if r.DevicesErr != nil {
		return false
	}
	gone := slices.ContainsFunc(k.Devices, func(had Device) bool {
		return !slices.ContainsFunc(r.Devices, func(has Device) bool { return has.Resource == had.Resource })
	})
	if k.gone++; !gone {
		k.gone = 0
	}
	if gone && k.gone < keepGone || slices.Equal(k.Devices, r.Devices) {
		return false
	}
	k.Devices = r.Devices
	return true
}
