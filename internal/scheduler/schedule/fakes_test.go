package schedule

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/kubepod"
)

// fakeState is a CycleState.
type fakeState struct {
	fwk.CycleState
	data  map[fwk.StateKey]fwk.StateData
	group bool
}

func newState() *fakeState { return &fakeState{data: map[fwk.StateKey]fwk.StateData{}} }

func (s *fakeState) Read(key fwk.StateKey) (fwk.StateData, error) {
	if data, found := s.data[key]; found {
		return data, nil
	}
	return nil, fwk.ErrNotFound
}
func (s *fakeState) Write(key fwk.StateKey, data fwk.StateData) { s.data[key] = data }
func (s *fakeState) Delete(key fwk.StateKey)                    { delete(s.data, key) }
func (s *fakeState) IsPodGroupSchedulingCycle() bool            { return s.group }

func (s *fakeState) Clone() fwk.CycleState {
	c := newState()
	c.group = s.group
	for key, data := range s.data {
		c.data[key] = data.Clone()
	}
	return c
}

// fakePod is a PodInfo.
type fakePod struct {
	fwk.PodInfo
	pod *v1.Pod
}

func (p fakePod) GetPod() *v1.Pod { return p.pod }

// fakeResource is a Resource.
type fakeResource struct {
	fwk.Resource
	milli, memory int64
	scalars       map[v1.ResourceName]int64
	pods          int
}

func (r fakeResource) GetMilliCPU() int64                            { return r.milli }
func (r fakeResource) GetMemory() int64                              { return r.memory }
func (r fakeResource) GetAllowedPodNumber() int                      { return r.pods }
func (r fakeResource) GetEphemeralStorage() int64                    { return 0 }
func (r fakeResource) GetScalarResources() map[v1.ResourceName]int64 { return r.scalars }

// add adds the requests of a pod times the given factor, which is -1 to subtract them.
func (r *fakeResource) add(pod *v1.Pod, times int64) {
	r.scalars = maps.Clone(r.scalars) // others may hold the map
	for name, amount := range kubepod.Requests(pod) {
		switch {
		case name == v1.ResourceCPU:
			r.milli += amount.MilliValue() * times
		case name == v1.ResourceMemory:
			r.memory += amount.Value() * times
		case kubepod.PageSize(name) > 0 || strings.Contains(string(name), "/"):
			if r.scalars == nil {
				r.scalars = map[v1.ResourceName]int64{}
			}
			r.scalars[name] += amount.Value() * times
		}
	}
}

// fakeNode is a NodeInfo. Like the real one, it gets a globally unique generation with every change.
type fakeNode struct {
	fwk.NodeInfo
	generations *atomic.Int64
	generation  int64
	node        *v1.Node
	pods        []fwk.PodInfo
	requested   *fakeResource
	allocatable *fakeResource
}

func (n *fakeNode) Node() *v1.Node               { return n.node }
func (n *fakeNode) GetPods() []fwk.PodInfo       { return n.pods }
func (n *fakeNode) GetGeneration() int64         { return n.generation }
func (n *fakeNode) GetRequested() fwk.Resource   { return n.requested }
func (n *fakeNode) GetAllocatable() fwk.Resource { return n.allocatable }

func (n *fakeNode) Snapshot() fwk.NodeInfo {
	c := *n
	c.pods = slices.Clone(n.pods)
	requested := *n.requested
	c.requested = &requested
	return &c
}

func (n *fakeNode) changed() {
	n.generation = n.generations.Add(1)
}

func (n *fakeNode) AddPodInfo(p fwk.PodInfo) {
	n.pods = append(n.pods, p)
	n.requested.add(p.GetPod(), 1)
	n.changed()
}

func (n *fakeNode) RemovePod(_ klog.Logger, pod *v1.Pod) error {
	for i, p := range n.pods {
		if p.GetPod().UID == pod.UID {
			n.pods = slices.Delete(n.pods, i, i+1)
			n.requested.add(pod, -1)
			n.changed()
			return nil
		}
	}
	return errors.New("no such pod")
}

// fakeHandle is a Handle and the lister of its own snapshot.
type fakeHandle struct {
	fwk.Handle
	client    clientset.Interface
	informers informers.SharedInformerFactory
	recorder  *events.FakeRecorder
	dra       fwk.SharedDRAManager
	calls     fwk.APICacher
	nominated []*v1.Pod            // for any node
	nominees  map[string][]*v1.Pod // by node
	snapshot  map[string]*fakeNode
	apart     []fwk.NodeInfo // nodes with pods of required anti-affinity
	extenders []fwk.Extender

	mu        sync.Mutex
	activated []string
}

func (h *fakeHandle) ClientSet() clientset.Interface                         { return h.client }
func (h *fakeHandle) KubeConfig() *restclient.Config                         { return nil }
func (h *fakeHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }
func (h *fakeHandle) EventRecorder() events.EventRecorderLogger              { return h.recorder }
func (h *fakeHandle) APICacher() fwk.APICacher                               { return h.calls }
func (h *fakeHandle) SharedDRAManager() fwk.SharedDRAManager                 { return h.dra }
func (h *fakeHandle) SnapshotSharedLister() fwk.SharedLister                 { return fakeLister{h: h} }

func (h *fakeHandle) Extenders() []fwk.Extender { return h.extenders }
func (h *fakeHandle) ProfileName() string       { return v1.DefaultSchedulerName }

func (h *fakeHandle) NominatedPodsForNode(node string) []fwk.PodInfo {
	var infos []fwk.PodInfo
	for _, pod := range slices.Concat(h.nominated, h.nominees[node]) {
		infos = append(infos, fakePod{pod: pod})
	}
	return infos
}

func (h *fakeHandle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.activated = append(h.activated, slices.Sorted(maps.Keys(pods))...)
}

// tookActivated returns the pods that were activated since the last call.
func (h *fakeHandle) tookActivated() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	pods := h.activated
	h.activated = nil
	slices.Sort(pods)
	return slices.Compact(pods)
}

type fakeLister struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	h *fakeHandle
}

func (l fakeLister) NodeInfos() fwk.NodeInfoLister { return l }

func (l fakeLister) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return l.h.apart, nil
}

func (l fakeLister) Get(name string) (fwk.NodeInfo, error) {
	if n := l.h.snapshot[name]; n != nil {
		return n, nil
	}
	return nil, errors.New("no such node")
}

// topologySource lists and watches NodeTopologies.
type topologySource struct {
	mu       sync.Mutex
	absent   bool // the resource type does not exist
	items    map[string]*v1alpha1.NodeTopology
	version  int
	watchers []*watch.RaceFreeFakeWatcher
}

func (s *topologySource) IsWatchListSemanticsUnSupported() bool { return true }

func (s *topologySource) List(metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.absent {
		return nil, apierrors.NewNotFound(v1alpha1.GroupVersion().WithResource(v1alpha1.NodeTopologyResource).GroupResource(), "")
	}
	list := &v1alpha1.NodeTopologyList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	for _, name := range slices.Sorted(maps.Keys(s.items)) {
		list.Items = append(list.Items, *s.items[name].DeepCopy())
	}
	return list, nil
}

func (s *topologySource) Watch(metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := watch.NewRaceFreeFake()
	s.watchers = append(s.watchers, w)
	return w, nil
}

func (s *topologySource) set(name string, change func(*v1alpha1.NodeTopology)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	t := s.items[name]
	known := t != nil
	if !known {
		t = &v1alpha1.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("topology-" + name)}}
		s.items[name] = t
	}
	change(t)
	t.ResourceVersion = strconv.Itoa(s.version)
	for _, w := range s.watchers {
		if known {
			w.Modify(t.DeepCopy())
		} else {
			w.Add(t.DeepCopy())
		}
	}
}

func (s *topologySource) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	t := s.items[name].DeepCopy()
	t.ResourceVersion = strconv.Itoa(s.version)
	delete(s.items, name)
	for _, w := range s.watchers {
		w.Delete(t)
	}
}

// must stops the test on an error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
