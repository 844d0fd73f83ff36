package pin

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/hardware"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/kubelet"
)

// Devices that the kubelet lists are published by NUMA node, and stay while the kubelet is silent. A resource with a
// device on an absent node is omitted.
func TestDevicesArePublished(t *testing.T) {
	s := newNode(t, twoNodes("0-1"))
	reads(s)
	publishes := func(what string, want ...v1alpha1.NodeDevice) {
		t.Helper()
		reads(s)
		spec, _, known := s.opts.Hardware.Topology(&place.Snapshot{}, s.inventory.Pods.Unplaced)
		if diff := cmp.Diff(want, spec.Devices); !known || diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	take := func(r kubelet.Reading, want bool) {
		t.Helper()
		r.Whole = true
		if changed, err := s.opts.Hardware.TakeKubelet(r, 0); err != nil || changed != want {
			t.Errorf("%v: changed %t, %v", r.Devices, changed, err)
		}
	}
	publishes("at first")
	some := []kubelet.Device{
		{Resource: "example.com/astray", Node: 0, Count: 1},
		{Resource: "example.com/astray", Node: 7, Count: 1},
		{Resource: "example.com/gpu", Node: 0, Count: 4},
		{Resource: "example.com/gpu", Node: 1, Count: 3},
		{Resource: "example.com/nic", Node: 1, Count: 1},
	}
	gpus := v1alpha1.NodeDevice{Resource: "example.com/gpu", PerNUMANode: []int64{4, 3}}
	take(kubelet.Reading{Devices: slices.Clone(some)}, true)
	publishes("two resources", gpus, v1alpha1.NodeDevice{Resource: "example.com/nic", PerNUMANode: []int64{0, 1}})
	silent := errors.New("away")
	take(kubelet.Reading{Err: silent, DevicesErr: silent}, false)
	some[3].Count, gpus.PerNUMANode = 2, []int64{4, 2}
	take(kubelet.Reading{Err: silent, Devices: some}, true)
	publishes("one less, from a kubelet that says nothing else", gpus, v1alpha1.NodeDevice{Resource: "example.com/nic", PerNUMANode: []int64{0, 1}})
}

// A kubelet that does not report the memory it gave is logged once, and again after it has reported in between.
func TestUnknownMemoryIsLogged(t *testing.T) {
	log := &strings.Builder{}
	n := hardware.NewNode(hardware.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	for i, want := range []int{1, 1, 1, 2} {
		r := kubelet.Reading{Whole: true, MemoryErr: errors.New("podresources: away")}
		if i == 2 {
			r.MemoryErr = nil
		}
		if _, err := n.TakeKubelet(r, 0); err != nil {
			t.Fatal(err)
		}
		if times := strings.Count(log.String(), "podresources: away"); times != want {
			t.Errorf("reading %d: logged %d times, want %d: %s", i, times, want, log)
		}
	}
}

// The memory that the kubelet's memory manager gave is published by NUMA nodes and page size. Pods that have a
// placement, have ended or are unknown are omitted.
func TestKubeletMemoryIsPublished(t *testing.T) {
	s := newNode(t, twoNodes("0-1"))
	reads(s)
	pod := func(name, placement string, ended bool) *cluster.Pod {
		p := &cluster.Pod{Key: "shop/" + name, From: cluster.APIServer}
		p.Namespace, p.Name, p.UID, p.Ended = "shop", name, name, ended
		p.Annotations = map[string]string{v1alpha1.AnnotationPlacement: placement}
		return p
	}
	s.inventory.Take(&cluster.Snapshot{PodsFrom: cluster.APIServer, Pods: []*cluster.Pod{
		pod("db", "", false), pod("done", "", true), pod("pinned", `{"v":1}`, false), pod("web", "", false),
	}})
	second := list(t, "1")
	given := []kubelet.Memory{
		{Pod: "shop/db", Nodes: second, Bytes: 3},
		{Pod: "shop/db", Nodes: second, PageBytes: 2 << 20, Bytes: 4 << 20},
		{Pod: "shop/done", Nodes: second, Bytes: 100},
		{Pod: "shop/gone", Nodes: second, Bytes: 100},
		{Pod: "shop/pinned", Nodes: second, Bytes: 100},
		{Pod: "shop/web", Nodes: second, Bytes: 5},
		{Pod: "shop/web", Nodes: list(t, "0-1"), Bytes: 7},
	}
	for _, changed := range []bool{true, false} {
		if did, err := s.opts.Hardware.TakeKubelet(kubelet.Reading{Err: errors.New("away"), Memory: given}, 0); err != nil || changed && !did {
			t.Errorf("changed %t, %v", did, err)
		}
		_, status, _ := s.opts.Hardware.Topology(&place.Snapshot{}, s.inventory.Pods.Unplaced)
		want := []v1alpha1.KubeletMemory{{NUMANodes: "1", PageKiB: 2048, Bytes: 4 << 20}, {NUMANodes: "1", Bytes: 8}, {NUMANodes: "0-1", Bytes: 7}}
		if diff := cmp.Diff(want, status.KubeletMemory); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	}
}
