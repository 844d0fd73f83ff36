package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
)

// defaultPods is the kubelet's default limit of pods on a node.
const defaultPods = 110

// Cluster is a simulated cluster. It is not safe for concurrent use.
type Cluster struct {
	nodes   []*node   // by name
	all     []*demand // in the order of the input
	pending []*demand // in the order of decision
	agents  Agents
	gaps    []Gap
	ignored []Ignored
	notes   []string
	scratch alloc.Scratch
	replies replies
	// mostMoves is the maximum of moves in a plan for a pending pod, 0 for no plans.
	mostMoves int
	// left are the pods that are still pending after Run.
	left []*demand
	// progress gets the progress of a long Run; it may be nil.
	progress func(string)
}

// PlanRepacks makes Run plan, for each pod that stays pending because of fragmentation, the fewest moves that make room
// for it.
func (c *Cluster) PlanRepacks() { c.mostMoves = MostMoves }

// Progress makes Run report its progress in lines, if it decides many pods. The lines depend on counts only, so equal
// inputs have equal lines.
func (c *Cluster) Progress(report func(string)) { c.progress = report }

// Run reports after each twentieth of the pods, but not more often than after this many pods. Fewer pods have no
// report.
const (
	reports    = 20
	leastPods  = 1000 // half a second with 10,000 nodes
	leastPlans = 1    // the search for the moves of one pod may take seconds
)

// tell reports that done pods of all are decided or searched, if a report is due.
func (c *Cluster) tell(what string, done, all, least int) {
	if c.progress != nil && all > least && done%max(least, all/reports) == 0 {
		c.progress(fmt.Sprintf("%s %d of %d pods", what, done, all))
	}
}

// node is a node and what its pods use of it.
type node struct {
	name    string
	index   int      // in Cluster.nodes
	object  *v1.Node // made up if the input has none
	hash    string
	machine *alloc.Machine // nil without a NodeTopology
	closed  *refusal       // why no pod can be pinned here
	policy  placement.NodePolicy
	notes   []string

	allocatable allocatable
	milli       int64 // requested by all pods
	requested   workload.Besides
	pods        int
	occupancy   placement.Occupancy
	// given is the part of occupancy that the kubelet gave to pods.
	given  placement.Given
	held   []Held
	pinned []pinned
	before placement.Fragmentation
	memo   map[string]verdict // valid until the next pod comes
}

// allocatable is the resources of a node for its pods.
type allocatable struct {
	milli, memory int64
	pods          int
	huge          workload.HugePages
}

// pinned is a pod on a node that may pin, and what it holds there.
type pinned struct {
	*demand
	has placement.Held
}

// demand is a pod and what it asks for.
type demand struct {
	pod Pod
	*request
}

// request is what a pod asks for. Replicas of a workload share it.
type request struct {
	milli    int64
	requests workload.Besides
	affinity nodeaffinity.RequiredNodeAffinity
	mayPin   bool
	pinning  workload.Pinning
	ask      placement.Ask
	warnings []string
}

// New builds the cluster. Pods that already have a node hold their resources there; all other pods wait for Run. A
// NodeTopology that contradicts itself is ignored, and a note reports it.
func New(o Objects) *Cluster {
	c := &Cluster{ignored: o.Ignored, agents: o.Agents, gaps: used(o.Pods, o.Nodes)}
	c.addNodes(o)
	for i, pod := range o.Pods {
		d := &demand{pod: pod}
		if i > 0 && pod.Pod == o.Pods[i-1].Pod {
			d.request = c.all[i-1].request
		} else {
			d.request = requestOf(pod.Pod)
		}
		c.all = append(c.all, d)
		switch {
		case pod.Spec.NodeName == "" || pod.Preset:
			c.pending = append(c.pending, d)
		default:
			c.bind(d)
		}
	}
	for _, n := range c.nodes {
		n.before = n.fragmentation()
	}
	// Preset pods first, since they bypass the scheduler, then higher priority, then input order.
	slices.SortStableFunc(c.pending, func(a, b *demand) int {
		return cmp.Or(boolFirst(a.pod.Preset, b.pod.Preset), cmp.Compare(priority(b.pod.Pod), priority(a.pod.Pod)))
	})
	return c
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

func requestOf(pod *v1.Pod) *request {
	r := &request{affinity: nodeaffinity.GetRequiredNodeAffinity(pod)}
	r.milli, r.requests = kubepod.ScheduledAll(pod)
	said := r.pin(pod)
	for _, slip := range workload.Slips(pod.Labels, pod.Annotations) {
		if !slices.Contains(said, slip) {
			r.warnings = append(r.warnings, slip.Error())
		}
	}
	return r
}

// pin reads the pod's request for exclusive CPUs, and returns the problems of it.
func (r *request) pin(pod *v1.Pod) v1alpha1.FieldErrors {
	if r.mayPin = kubepod.MayPin(pod); !r.mayPin && !kubepod.InVM(pod) {
		return nil
	}
	pinning, problems := workload.PinningOf(kubepod.Of(pod))
	for _, problem := range problems {
		r.warnings = append(r.warnings, "no exclusive CPUs: "+problem.Error())
	}
	if !r.mayPin {
		if pinning.Wanted {
			r.warnings = append(r.warnings, "no exclusive CPUs: its runtime class "+*pod.Spec.RuntimeClassName+" starts a virtual machine")
		}
		return problems
	}
	if text := pinning.UnknownText(); text != "" {
		r.warnings = append(r.warnings, text)
	}
	if r.pinning = pinning; pinning.Wanted {
		r.ask = placement.AskOf(pinning)
	}
	return slices.Concat(problems, pinning.Unknown)
}

// addNodes makes the nodes from both kinds of objects.
func (c *Cluster) addNodes(o Objects) {
	objects := map[string]*v1.Node{}
	for i := range o.Nodes {
		objects[o.Nodes[i].Name] = &o.Nodes[i]
	}
	topologies := map[string]*v1alpha1.NodeTopology{}
	for i := range o.Topologies {
		topologies[o.Topologies[i].Name] = &o.Topologies[i]
	}
	names := maps.Clone(objects)
	for name := range topologies {
		names[name] = objects[name]
	}
	machines := compiler{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n := &node{name: name, index: len(c.nodes), object: objects[name], memo: map[string]verdict{}}
		n.setMachine(topologies[name], machines)
		n.setAgent(o.Agents)
		n.setAllocatable()
		policy, problems := placement.PolicyOf(n.object.Labels)
		n.policy = policy
		for _, problem := range problems {
			n.note("%v", problem)
		}
		c.nodes = append(c.nodes, n)
	}
}

// compiler compiles each machine once: nodes with equal machines share it.
type compiler map[string]*alloc.Machine

func (c compiler) compile(spec v1alpha1.NodeTopologySpec) (*alloc.Machine, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err //nolint:wrapcheck // never for a value without interfaces
	}
	if m := c[string(text)]; m != nil {
		return m, nil
	}
	t, err := topology.FromSpec(spec)
	if err != nil {
		return nil, err
	}
	m, err := alloc.Compile(t)
	if err != nil {
		return nil, err
	}
	c[string(text)] = m
	return m, nil
}

func (n *node) setMachine(t *v1alpha1.NodeTopology, machines compiler) {
	if t == nil {
		n.closed = refuse(placement.TextNoTopology, "no NodeTopology: does Berth's agent run there?")
		n.note("no NodeTopology: no pod can be pinned here")
		return
	}
	m, err := machines.compile(t.Spec)
	if err != nil {
		n.closed = refuse(placement.TextLies, "%v", err)
		n.note("the NodeTopology does not count: %v", err)
		return
	}
	n.machine, n.hash = m, m.Topology().Hash()
	n.given = placement.GivenBy(m.Topology(), t.Status.KubeletMemory)
	n.occupancy.AddGiven(n.given)
	for _, condition := range t.Status.Conditions {
		if condition.Type == v1alpha1.ConditionPinnable && condition.Status != metav1.ConditionTrue {
			why := conditionText(condition.Reason, condition.Message)
			n.closed = refuse(placement.ReasonUnpinnable(t.Status.NotPinnable()), "not pinnable: %s", why)
			n.note("no pod can be pinned here: %s", why)
		}
	}
}

// setAgent closes the node if the scheduler would, because the agent does not renew its Lease.
func (n *node) setAgent(a Agents) {
	if n.closed != nil {
		return
	}
	if silent := a.silent(n.name); silent != "" {
		n.closed = refuse(placement.TextStale, "%s", silent)
		n.note("no pod can be pinned here: %s", silent)
	}
}

// conditionText joins reason and message of a condition; either may be empty.
func conditionText(reason, message string) string {
	if reason == "" || message == "" {
		return cmp.Or(reason, message)
	}
	return reason + ": " + message
}

// setAllocatable uses the Node's values, else those of the machine.
func (n *node) setAllocatable() {
	made := n.object == nil
	if made {
		n.object = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{v1.LabelHostname: n.name}}}
	}
	n.allocatable.pods = defaultPods
	var assumed []string
	list := n.object.Status.Allocatable
	if pods, said := list[v1.ResourcePods]; said {
		n.allocatable.pods = int(pods.Value())
	} else {
		assumed = append(assumed, fmt.Sprintf("%d pods", defaultPods))
	}
	if cpu, said := list[v1.ResourceCPU]; said {
		n.allocatable.milli = cpu.MilliValue()
	} else if n.machine != nil {
		count := n.machine.Pinnable().Size()
		n.allocatable.milli = int64(count) * 1000
		assumed = append(assumed, fmt.Sprintf("%d CPUs (all that are not reserved or isolated)", count))
	}
	if memory, said := list[v1.ResourceMemory]; said {
		n.allocatable.memory = memory.Value()
	} else if n.machine != nil {
		n.allocatable.memory = memoryOf(n.machine.Topology())
		assumed = append(assumed, bytesOf(n.allocatable.memory)+" (all memory of the machine)")
	}
	n.allocatable.huge = kubepod.HugePages(list)
	if len(list) == 0 && n.machine != nil {
		n.allocatable.huge = poolsOf(n.machine.Topology())
	}
	if made {
		n.note("no Node object: no taints, and no label but %s", v1.LabelHostname)
	}
	if len(assumed) > 0 {
		n.note("not said what is allocatable: %s", strings.Join(assumed, ", "))
	}
}

// memoryOf sums the memory of a machine. If it is unknown, no pod is refused because of memory.
func memoryOf(t *topology.Topology) int64 {
	sum := int64(0)
	for _, n := range t.Nodes {
		sum += n.MemoryBytes
	}
	if sum == 0 {
		return math.MaxInt64
	}
	return sum
}

// poolsOf sums the huge pages of a machine.
func poolsOf(t *topology.Topology) workload.HugePages {
	var all workload.HugePages
	for _, n := range t.Nodes {
		for _, pool := range n.HugePages {
			all.Put(pool.PageBytes(), pool.Bytes())
		}
	}
	return all
}

func (n *node) note(format string, args ...any) {
	n.notes = append(n.notes, fmt.Sprintf(format, args...))
}

func (c *Cluster) node(name string) *node {
	i, found := slices.BinarySearchFunc(c.nodes, name, func(n *node, name string) int { return cmp.Compare(n.name, name) })
	if !found {
		return nil
	}
	return c.nodes[i]
}

// bind adds a bound pod to its node, with the CPUs of its annotation.
func (c *Cluster) bind(d *demand) {
	n := c.node(d.pod.Spec.NodeName)
	if n == nil {
		c.notes = append(c.notes, fmt.Sprintf("%s is on the node %s, which is not in the input: it does not count", d.name(), d.pod.Spec.NodeName))
		return
	}
	n.take(d, d.pod.Annotations[v1alpha1.AnnotationPlacement])
}

// name returns "namespace/name".
func (d *demand) name() string { return d.pod.Namespace + "/" + d.pod.name() }
