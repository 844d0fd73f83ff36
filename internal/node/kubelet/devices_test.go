package kubelet

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// lister is the kubelet's PodResources API.
type lister struct {
	podresources.UnimplementedPodResourcesListerServer
	devices []*podresources.ContainerDevices
	pods    []*podresources.PodResources
}

func (l *lister) GetAllocatableResources(context.Context, *podresources.AllocatableResourcesRequest) (*podresources.AllocatableResourcesResponse, error) {
	return &podresources.AllocatableResourcesResponse{Devices: l.devices}, nil
}

func (l *lister) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: l.pods}, nil
}

// serve answers on the socket of a kubelet's directory.
func (l *lister) serve(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, "pod-resources"), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, resourcesSocket))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, l)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
}

// at returns the topology of something in some NUMA nodes.
func at(nodes ...int64) *podresources.TopologyInfo {
	info := &podresources.TopologyInfo{}
	for _, id := range nodes {
		info.Nodes = append(info.Nodes, &podresources.NUMANode{ID: id})
	}
	return info
}

// TestDevices checks that the kubelet's allocatable devices are counted by resource and NUMA node. A device in no NUMA
// node, or in several, excludes its resource.
func TestDevices(t *testing.T) {
	dir := t.TempDir()
	source := Source{Dir: dir}
	if _, err := source.Devices(t.Context()); !errors.Is(err, ErrNoState) {
		t.Errorf("no socket: %v", err)
	}
	device := func(name string, ids []string, nodes ...int64) *podresources.ContainerDevices {
		return &podresources.ContainerDevices{ResourceName: name, DeviceIds: ids, Topology: at(nodes...)}
	}
	all := &lister{devices: []*podresources.ContainerDevices{
		device("example.com/nic", []string{"n0"}, 1),
		device("example.com/gpu", []string{"g0", "g1"}, 0), device("example.com/gpu", []string{"g2"}, 1), device("example.com/gpu", []string{"g3"}, 1),
		device("example.com/wide", []string{"w0"}, 0), device("example.com/wide", []string{"w1"}, 0, 1),
		device("example.com/fuse", []string{"f0"}),
		{ResourceName: "example.com/none", DeviceIds: []string{"x"}},
	}}
	all.serve(t, dir)
	reading := source.Read(t.Context())
	want := []Device{{"example.com/gpu", 0, 2}, {"example.com/gpu", 1, 2}, {"example.com/nic", 1, 1}}
	if reading.DevicesErr != nil || !slices.Equal(reading.Devices, want) {
		t.Errorf("%v, %v; want %v", reading.Devices, reading.DevicesErr, want)
	}
	var k Knowledge
	silent := Reading{DevicesErr: ErrNoState}
	if !k.TakeDevices(reading) || k.TakeDevices(reading) || k.TakeDevices(silent) || !slices.Equal(k.Devices, want) {
		t.Errorf("known are %v", k.Devices)
	}
	fewer := Reading{Devices: slices.Concat(want[:1], want[2:])}
	if k.TakeDevices(Reading{}) || !k.TakeDevices(fewer) || !k.TakeDevices(reading) {
		t.Errorf("a kubelet that is restarted, and a device that fails for a while, leave %v", k.Devices)
	}
	for i := range keepGone {
		if k.TakeDevices(Reading{}) != (i == keepGone-1) {
			t.Errorf("after %d readings of a kubelet that lists none: %v", i+1, k.Devices)
		}
	}
}
