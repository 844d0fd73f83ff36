package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// cluster is a scheduler whose only plugin is Berth's, on an in-memory API.
type cluster struct {
	t        testing.TB
	ctx      context.Context
	client   *fake.Clientset
	handle   *fakeHandle
	source   *topologySource
	factory  *Factory
	registry metrics.KubeRegistry
	plugin   *Plugin
	args     string
	assumed  map[types.UID]*v1.Pod
	fault    func(*v1.Binding) (apply bool, err error)
	leases   atomic.Pointer[listed]
	requests int          // to the API server, for bindings
	last     atomic.Int64 // generation of a NodeInfo
	uids     int
	versions int
	nodes    []fwk.NodeInfo // of the last snapshot
	skipped  atomic.Int64   // nodes for which Filter was skipped
	decides  int            // decisions of the last PostFilter
}

// TestMain removes the error handler of Kubernetes' libraries that pauses between errors. Its clock is a global of the
// process, and in a synctest bubble the last error was decades ago, or lies in the future.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] //nolint:reassign // That is what it is for.
	os.Exit(m.Run())
}

// inCluster runs a test with a cluster inside a synctest bubble, which has its own clock.
func inCluster(t *testing.T, args string, test func(*testing.T, *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, args)
		test(t, c)
	})
}

func newCluster(t testing.TB, args string) *cluster {
	c := &cluster{t: t, client: fake.NewClientset(), args: args}
	c.client.PrependReactor("create", "pods", c.bind)
	c.client.PrependReactor("list", "leases", c.listLeases)
	c.source = &topologySource{items: map[string]*v1alpha1.NodeTopology{}}
	c.start()
	return c
}

// start starts a scheduler that knows only what the API server shows, and waits until it has read everything.
func (c *cluster) start() {
	c.begin()
	c.settle()
}

func (c *cluster) begin() {
	ctx, cancel := context.WithCancel(c.t.Context())
	shared := informers.NewSharedInformerFactory(c.client, 0)
	c.ctx, c.assumed = ctx, map[types.UID]*v1.Pod{}
	c.handle = &fakeHandle{client: c.client, informers: shared, recorder: events.NewFakeRecorder(100)}
	c.registry = metrics.NewKubeRegistry()
	c.factory = &Factory{Register: c.registry.Register, Topologies: c.source}
	plugin := must(c.factory.New(ctx, &runtime.Unknown{Raw: []byte(c.args)}, c.handle))(c.t)
	c.plugin = plugin.(*Plugin)
	shared.Start(ctx.Done())
	c.t.Cleanup(func() {
		cancel()
		shared.Shutdown()
	})
}

// settle waits until all events have arrived.
func (c *cluster) settle() {
	time.Sleep(200 * time.Millisecond)
	synctest.Wait()
}

// machine returns the topology of the test nodes: 32 CPUs in 2 NUMA nodes of 2 L3 domains of 4 cores of 2 threads. The
// numbers of SMT siblings differ by 16.
func machine() *topology.Topology {
	t := &topology.Topology{Online: cpuset.Set{}}
	for cpu := range 32 {
		t.Online = t.Online.Add(cpu)
	}
	span := func(first, n int) cpuset.Set {
		var s cpuset.Set
		for cpu := first; cpu < first+n; cpu++ {
			s = s.Add(cpu).Add(cpu + 16)
		}
		return s
	}
	t.Sockets = []topology.Socket{{ID: 0, CPUs: t.Online}}
	for i := range 2 {
		t.Nodes = append(t.Nodes, topology.Node{
			ID: topology.NodeID(i), CPUs: span(8*i, 8), MemoryBytes: 64 << 30, Distances: []int{10 + 11*i, 21 - 11*i},
		})
	}
	for i := range 4 {
		t.L3 = append(t.L3, topology.L3{ID: topology.L3ID(i), CPUs: span(4*i, 4)})
	}
	for i := range 16 {
		t.Cores = append(t.Cores, topology.Core{
			ID: topology.CoreID(i), CPUs: span(i, 1), Node: topology.NodeID(i / 8), L3: topology.L3ID(i / 4),
		})
	}
	return t
}

// node adds a node of 32 CPUs with a live agent.
func (c *cluster) node(name string) {
	c.bareNode(name)
	c.topology(name, machine())
	c.beat(name)
	c.settle()
}

func (c *cluster) bareNode(name string) {
	c.t.Helper()
	must(c.client.CoreV1().Nodes().Create(c.ctx, &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("128Gi"), v1.ResourcePods: resource.MustParse("110"),
		}},
	}, metav1.CreateOptions{}))(c.t)
}

func (c *cluster) topology(name string, t *topology.Topology) {
	spec := t.Spec()
	c.source.set(name, func(nt *v1alpha1.NodeTopology) { nt.Spec = spec })
}

// beat renews the Lease of a node's agent.
func (c *cluster) beat(name string) {
	leases := c.client.CoordinationV1().Leases("berth-system")
	now := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &now},
	}
	if _, err := leases.Update(c.ctx, lease, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		must(leases.Create(c.ctx, lease, metav1.CreateOptions{}))(c.t)
	}
}

// option changes a pod before it is created.
type option func(*v1.Pod)

func annotated(key, value string) option {
	return func(p *v1.Pod) { p.Annotations[key] = value }
}

func requesting(cpu string) option {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	}
}

func in(namespace string) option { return func(p *v1.Pod) { p.Namespace = namespace } }

// spec returns a pod that asks for the given number of exclusive CPUs.
func (c *cluster) spec(name string, cpus int, options ...option) *v1.Pod {
	c.uids++
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI)}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprintf("uid-%d", c.uids)), Generation: 1,
			Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"},
		},
		Spec: v1.PodSpec{SchedulerName: "berth-scheduler", Containers: []v1.Container{{
			Name: "app", Resources: v1.ResourceRequirements{Requests: list, Limits: list},
		}}},
	}
	for _, o := range options {
		o(pod)
	}
	return pod
}

// pod creates a pod that asks for the given number of exclusive CPUs.
func (c *cluster) pod(name string, cpus int, options ...option) *v1.Pod {
	c.t.Helper()
	return c.create(c.spec(name, cpus, options...))
}

// ordinary creates a pod that uses the shared pool.
func (c *cluster) ordinary(name, request string) *v1.Pod {
	c.t.Helper()
	pod := c.spec(name, 1, requesting(request))
	pod.Annotations = nil
	pod.Spec.Containers[0].Resources.Limits = nil
	return c.create(pod)
}

func (c *cluster) create(pod *v1.Pod) *v1.Pod {
	c.t.Helper()
	must(c.client.CoreV1().Pods(pod.Namespace).Create(c.ctx, pod.DeepCopy(), metav1.CreateOptions{}))(c.t)
	c.settle()
	return pod
}

func (c *cluster) get(pod *v1.Pod) *v1.Pod {
	c.t.Helper()
	return must(c.client.CoreV1().Pods(pod.Namespace).Get(c.ctx, pod.Name, metav1.GetOptions{}))(c.t)
}

func (c *cluster) update(pod *v1.Pod, change func(*v1.Pod)) {
	c.t.Helper()
	now := c.get(pod)
	change(now)
	now.ResourceVersion = c.version()
	must(c.client.CoreV1().Pods(pod.Namespace).Update(c.ctx, now, metav1.UpdateOptions{}))(c.t)
	c.settle()
}

// version returns the next resource version. The in-memory API has no versions of its own.
func (c *cluster) version() string {
	c.versions++
	return strconv.Itoa(c.versions)
}

func (c *cluster) remove(pod *v1.Pod) {
	c.t.Helper()
	if err := c.client.CoreV1().Pods(pod.Namespace).Delete(c.ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	delete(c.assumed, pod.UID)
	c.settle()
}

// bind handles a Binding as the API server does.
func (c *cluster) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	c.requests++
	binding := create.GetObject().(*v1.Binding)
	apply, err := true, error(nil)
	if c.fault != nil {
		apply, err = c.fault(binding)
	}
	if apply {
		if refused := c.carryOut(binding); refused != nil {
			return true, nil, refused
		}
	}
	return true, binding, err
}

func (c *cluster) carryOut(binding *v1.Binding) error {
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	object, err := c.client.Tracker().Get(gvr, binding.Namespace, binding.Name)
	if err != nil {
		return err
	}
	pod := object.(*v1.Pod).DeepCopy()
	if pod.UID != binding.UID || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return apierrors.NewConflict(gvr.GroupResource(), binding.Name, fmt.Errorf("pod is of %s on %q", pod.UID, pod.Spec.NodeName))
	}
	pod.Spec.NodeName, pod.ResourceVersion = binding.Target.Name, c.version()
	pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, binding.Annotations)
	return c.client.Tracker().Update(gvr, pod, binding.Namespace)
}

// look makes a snapshot, as the scheduler does at the start of every cycle. The generation of an unchanged node stays.
func (c *cluster) look() {
	old := c.handle.snapshot
	c.handle.snapshot = map[string]*fakeNode{}
	pods := map[string][]*v1.Pod{}
	shared := c.handle.informers.Core().V1()
	for _, object := range shared.Pods().Informer().GetStore().List() {
		pod := object.(*v1.Pod)
		if pod.Spec.NodeName != "" {
			delete(c.assumed, pod.UID)
			pods[pod.Spec.NodeName] = append(pods[pod.Spec.NodeName], pod)
		}
	}
	for _, pod := range c.assumed {
		pods[pod.Spec.NodeName] = append(pods[pod.Spec.NodeName], pod)
	}
	for _, object := range shared.Nodes().Informer().GetStore().List() {
		node := object.(*v1.Node)
		here := pods[node.Name]
		slices.SortFunc(here, func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
		c.handle.snapshot[node.Name] = c.info(old[node.Name], node, here)
	}
}

func (c *cluster) info(old *fakeNode, node *v1.Node, pods []*v1.Pod) *fakeNode {
	if old != nil && old.node == node && slices.EqualFunc(old.pods, pods, func(i fwk.PodInfo, p *v1.Pod) bool { return i.GetPod() == p }) {
		return old
	}
	n := &fakeNode{
		generations: &c.last, node: node, requested: &fakeResource{},
		allocatable: &fakeResource{
			milli: node.Status.Allocatable.Cpu().MilliValue(), memory: node.Status.Allocatable.Memory().Value(),
			pods: int(node.Status.Allocatable.Pods().Value()),
		},
	}
	n.changed()
	for _, pod := range pods {
		n.AddPodInfo(fakePod{pod: pod})
	}
	return n
}

// attempt is one scheduling cycle of one pod.
type attempt struct {
	state    *fakeState
	pod      *v1.Pod // as the scheduler assumed it
	node     string
	refusals map[string]int // of Filter, by message
	status   *fwk.Status
}

// filter runs the cycle up to the choice of a node.
func (c *cluster) filter(pod *v1.Pod) *attempt {
	c.t.Helper()
	c.look()
	return c.filterBehind(pod)
}

// filterBehind does the same with the previous snapshot, because the scheduler's cache can learn of a change later than
// the plugin.
func (c *cluster) filterBehind(pod *v1.Pod) *attempt {
	return c.choose(&attempt{state: newState(), pod: pod.DeepCopy(), refusals: map[string]int{}})
}

func (c *cluster) choose(a *attempt) *attempt {
	result, status := c.plugin.PreFilter(c.ctx, a.state, a.pod, c.list())
	skips := status.IsSkip()
	if !status.IsSuccess() && !skips {
		a.status = status
		return a
	}
	var fit []fwk.NodeInfo
	var group sync.WaitGroup // the framework asks about many nodes concurrently
	names := slices.Sorted(maps.Keys(c.handle.snapshot))
	if !result.AllNodes() {
		names = slices.Sorted(maps.Keys(result.NodeNames))
	}
	statuses := make([]*fwk.Status, len(names))
	for i, name := range names {
		group.Go(func() { statuses[i] = c.ask(a, c.handle.snapshot[name], skips) })
	}
	group.Wait()
	for i, name := range names {
		info, status := c.handle.snapshot[name], statuses[i]
		if status.IsSuccess() {
			fit = append(fit, info)
			continue
		}
		a.refusals[status.Message()]++
		if a.status == nil || a.status.Code() != fwk.Unschedulable {
			a.status = status
		}
	}
	if len(fit) > 0 {
		a.status = nil
		a.node = c.best(a, fit)
	}
	return a
}

func (c *cluster) best(a *attempt, fit []fwk.NodeInfo) string {
	if c.plugin.PreScore(c.ctx, a.state, a.pod, fit).IsSkip() {
		return fit[0].Node().Name
	}
	var scores fwk.NodeScoreList
	for _, info := range fit {
		score, status := c.plugin.Score(c.ctx, a.state, a.pod, info)
		if !status.IsSuccess() {
			c.t.Fatal(status.AsError())
		}
		scores = append(scores, fwk.NodeScore{Name: info.Node().Name, Score: score})
	}
	c.plugin.NormalizeScore(c.ctx, a.state, a.pod, scores)
	best := scores[0]
	for _, score := range scores {
		if score.Score < fwk.MinScore || score.Score > fwk.MaxScore {
			c.t.Fatalf("node %s: score %d", score.Name, score.Score)
		}
		if score.Score > best.Score {
			best = score
		}
	}
	return best.Name
}

// reserve assumes the pod on the node of its attempt and reserves for it.
func (c *cluster) reserve(a *attempt) *attempt {
	c.t.Helper()
	if !a.status.IsSuccess() {
		c.t.Fatalf("pod %s has no node: %s %v", a.pod.Name, a.status.Message(), a.refusals)
	}
	a.pod = a.pod.DeepCopy()
	a.pod.Spec.NodeName = a.node
	if !a.state.group {
		c.assumed[a.pod.UID] = a.pod
	} else {
		// The framework's snapshot changes here without a new generation.
		node := c.handle.snapshot[a.node]
		before := node.generation
		node.AddPodInfo(fakePod{pod: a.pod})
		node.generation = before
	}
	if a.status = c.plugin.Reserve(c.ctx, a.state, a.pod, a.node); !a.status.IsSuccess() {
		c.giveUp(a)
	}
	return a
}

// giveUp unreserves the pod and removes it from the assumed pods.
func (c *cluster) giveUp(a *attempt) {
	c.plugin.Unreserve(c.ctx, a.state, a.pod, a.node)
	delete(c.assumed, a.pod.UID)
}

// finish binds the pod.
func (c *cluster) finish(a *attempt) *attempt {
	c.t.Helper()
	a.status = c.plugin.Bind(c.ctx, a.state, a.pod, a.node)
	if a.status.IsSkip() {
		a.status = fwk.AsStatus(c.client.CoreV1().Pods(a.pod.Namespace).Bind(c.ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.pod.Namespace, Name: a.pod.Name, UID: a.pod.UID},
			Target:     v1.ObjectReference{Kind: "Node", Name: a.node},
		}, metav1.CreateOptions{}))
	}
	if !a.status.IsSuccess() {
		c.giveUp(a)
	}
	c.settle()
	return a
}

// schedule runs a whole scheduling cycle and the binding.
func (c *cluster) schedule(pod *v1.Pod) *attempt {
	c.t.Helper()
	a := c.filter(pod)
	if a.status.IsSuccess() {
		c.reserve(a)
	}
	if a.status.IsSuccess() {
		c.finish(a)
	}
	return a
}

// placed schedules a pod that must fit, and returns its CPUs.
func (c *cluster) placed(pod *v1.Pod) cpuset.Set {
	c.t.Helper()
	if a := c.schedule(pod); !a.status.IsSuccess() {
		c.t.Fatalf("pod %s: %s %v", pod.Name, a.status.Message(), a.refusals)
	}
	return c.cpus(pod)
}

// refused schedules a pod that must be refused with a message that contains why.
func (c *cluster) refused(pod *v1.Pod, why string) *attempt {
	c.t.Helper()
	a := c.schedule(pod)
	if a.status.IsSuccess() {
		c.t.Fatalf("pod %s went to node %s with CPUs %s; it should be refused: %s", pod.Name, a.node, c.cpus(pod), why)
	}
	if !strings.Contains(a.status.Message(), why) {
		c.t.Fatalf("pod %s is refused: %s; want: %s", pod.Name, a.status.Message(), why)
	}
	return a
}

// cpus returns all CPUs that the API server shows for a pod.
func (c *cluster) cpus(pod *v1.Pod) cpuset.Set {
	c.t.Helper()
	text, found := c.get(pod).Annotations[v1alpha1.AnnotationPlacement]
	if !found {
		c.t.Fatalf("pod %s has no placement", pod.Name)
	}
	return placedCPUs(c.t, text)
}

func placedCPUs(t testing.TB, text string) cpuset.Set {
	t.Helper()
	var placement v1alpha1.Placement
	if err := json.Unmarshal([]byte(text), &placement); err != nil {
		t.Fatal(err)
	}
	var all cpuset.Set
	for _, container := range placement.Containers {
		all = all.Union(must(cpuset.Parse(container.CPUs))(t))
	}
	return all
}

// disjoint fails if two bound pods on one node share a CPU.
func (c *cluster) disjoint() {
	c.t.Helper()
	pods := must(c.client.CoreV1().Pods("").List(c.ctx, metav1.ListOptions{}))(c.t)
	used := map[string]cpuset.Set{}
	for _, pod := range pods.Items {
		text := pod.Annotations[v1alpha1.AnnotationPlacement]
		if pod.Spec.NodeName == "" || text == "" || kubepod.Complete(&pod) {
			continue
		}
		cpus := placedCPUs(c.t, text)
		if int64(cpus.Size()) != pod.Spec.Containers[0].Resources.Limits.Cpu().Value() && pod.Generation < 2 {
			continue // written by hand; the plugin ignores it
		}
		if used[pod.Spec.NodeName].Intersects(cpus) {
			c.t.Errorf("pod %s: CPUs %s of node %s are given twice", pod.Name, cpus, pod.Spec.NodeName)
		}
		used[pod.Spec.NodeName] = used[pod.Spec.NodeName].Union(cpus)
	}
}

// expectActivated fails unless exactly these pods were activated since the last call.
func (c *cluster) expectActivated(want ...string) {
	c.t.Helper()
	c.settle()
	if got := c.handle.tookActivated(); !slices.Equal(got, want) {
		c.t.Errorf("activated %v, want %v", got, want)
	}
}
