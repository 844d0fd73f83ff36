package schedule

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"weak"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// machineOf is the reduced form of a NodeTopology: a few words and a machine that it shares with all nodes of the same
// build.
type machineOf struct {
	metav1.ObjectMeta

	machine *alloc.Machine
	hash    string
	// problem is why there is no machine.
	problem error
	// barred is the reason of a condition Pinnable that is not true. A node without the condition can be pinned on
	// until its agent denies it.
	barred string
	// given is the memory that the kubelet gave to pods.
	given placement.Given
}

// interner gives equal topologies one machine. Machines without a node are freed. The zero value is ready for use.
type interner struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]weak.Pointer[alloc.Machine]
	// last is the latest state of each NodeTopology: agents write their status every few seconds, while the spec does
	// not change.
	last map[string]*machineOf
}

// unchanged returns the earlier result for the same spec, nil for none.
func (i *interner) unchanged(t *v1alpha1.NodeTopology) *machineOf {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := i.last[t.Name]
	if last == nil || t.Generation == 0 || last.UID != t.UID || last.Generation != t.Generation {
		return nil
	}
	return last
}

// remember records the latest state of a NodeTopology.
func (i *interner) remember(t *machineOf) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.last == nil {
		i.last = map[string]*machineOf{}
	}
	i.last[t.Name] = t
}

// forget forgets a NodeTopology that is gone.
func (i *interner) forget(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.last, name)
}

// Memory is counted in steps: nodes of the same build differ by some pages that their kernels used at boot, and would
// otherwise share no machine. The loss is less than the memory that is never bound anyway.
const (
	memoryStep      = 1 << 30
	smallMemory     = 16 << 30
	smallMemoryStep = 64 << 20
)

// inSteps returns the spec with memory rounded down to steps.
func inSteps(spec v1alpha1.NodeTopologySpec) *v1alpha1.NodeTopologySpec {
	spec.NUMANodes = slices.Clone(spec.NUMANodes)
	for i := range spec.NUMANodes {
		bytes := &spec.NUMANodes[i].MemoryBytes
		step := int64(memoryStep)
		if *bytes < smallMemory {
			step = smallMemoryStep
		}
		if *bytes > step {
			*bytes -= *bytes % step
		}
		// A node that is all huge pages stays so, and keeps them all.
		*bytes = max(*bytes, spec.NUMANodes[i].HugePageBytes)
	}
	return &spec
}

// machine returns the machine of a spec. It fails on specs that cannot be true.
func (i *interner) machine(full *v1alpha1.NodeTopologySpec) (*alloc.Machine, error) {
	spec := inSteps(*full)
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("write the topology as JSON: %w", err)
	}
	key := sha256.Sum256(text)
	i.mu.Lock()
	defer i.mu.Unlock()
	if m := i.known[key].Value(); m != nil {
		return m, nil
	}
	t, err := topology.FromSpec(*spec)
	if err != nil {
		return nil, err
	}
	m, err := alloc.Compile(t)
	if err != nil {
		return nil, err
	}
	if i.known == nil {
		i.known = map[[sha256.Size]byte]weak.Pointer[alloc.Machine]{}
	}
	for other, pointer := range i.known {
		if pointer.Value() == nil {
			delete(i.known, other)
		}
	}
	i.known[key] = weak.Make(m)
	return m, nil
}

// reduce is the informer's transform: an object from the API server is several times as large as the needed part.
func (i *interner) reduce(object any) (any, error) {
	t, ok := object.(*v1alpha1.NodeTopology)
	if !ok {
		return object, nil // a machineOf that was reduced already, or a tombstone
	}
	out := &machineOf{
		ObjectMeta: metav1.ObjectMeta{Name: t.Name, UID: t.UID, ResourceVersion: t.ResourceVersion, Generation: t.Generation},
		hash:       t.Spec.Hash,
	}
	if last := i.unchanged(t); last != nil {
		out.machine, out.problem = last.machine, last.problem
	} else {
		out.machine, out.problem = i.machine(&t.Spec)
	}
	i.remember(out)
	out.barred = t.Status.NotPinnable()
	if out.machine != nil {
		out.given = placement.GivenBy(out.machine.Topology(), t.Status.KubeletMemory)
	}
	return out, nil
}

// machines knows the machine of each node, by its NodeTopology, and what the node offers of it. It is safe for
// concurrent use.
type machines struct {
	*background
	interner

	handle fwk.Handle
	nodes  *directory
	agents *agents
	queue  *queue
}

// topologyLister lists and watches the NodeTopologies of an API server.
func topologyLister(config *rest.Config) (cache.ListerWatcher, error) {
	client, err := apiclient.NewTopologies(config)
	if err != nil {
		return nil, err
	}
	return apiclient.SourceOf(client, ""), nil
}

// watchTopologies follows the NodeTopologies until ctx ends. The function that it returns reports whether they were
// listed. While the type does not exist no node has a topology, and all pods that do not ask for exclusive CPUs are
// scheduled as ever.
func (m *machines) watchTopologies(source cache.ListerWatcher, unreadable func()) (func() bool, error) {
	informer := cache.NewSharedIndexInformer(source, &v1alpha1.NodeTopology{}, 0, cache.Indexers{})
	if err := informer.SetTransform(m.reduce); err != nil {
		return nil, watchError("NodeTopologies", err)
	}
	return m.watch(informer, "NodeTopologies", unreadable, handler(m.onTopology, m.offTopology))
}

func (m *machines) onTopology(old, t *machineOf) {
	if t.problem != nil && (old == nil || !errors.Is(t.problem, old.problem)) {
		m.log.Error(t.problem, "NodeTopology is not valid: nothing is pinned on the node", "node", t.Name)
	}
	m.set(t.Name, t)
}

func (m *machines) offTopology(t *machineOf) {
	m.forget(t.Name)
	m.set(t.Name, nil)
	if n := m.nodes.find(t.Name); n != nil {
		m.nodes.forget(n)
	}
}

// set applies the NodeTopology of a node, nil for none, and tries the pods again that waited for it. While the node has
// no topology that can be true, the last valid one determines which CPUs its pods hold.
func (m *machines) set(name string, t *machineOf) {
	n := m.nodes.lock(name)
	knew := n.access.known()
	n.access.listed = t != nil
	if t == nil {
		t = &machineOf{}
	}
	n.access.lies, n.access.barred = t.problem != nil, t.barred
	changed := n.access.known() && n.machine != t.machine || n.outlives()
	if changed {
		n.machine, n.hash = t.machine, t.hash
		n.readAll()
		m.size(n)
	}
	if n.access.known() && !n.given.Equal(t.given) {
		n.given = t.given
		n.touch()
	}
	opened := m.agents.look(n, time.Now())
	opened = n.settle() || opened
	other := changed || n.access.known() != knew // also if closed: the waiting pods report why
	n.mu.Unlock()
	if opened || other {
		m.queue.activate(refusedByTopology | refusedByCPUs | refusedByPromise | refusedBySize)
	}
}

// onNode records what a node offers.
func (m *machines) onNode(old, now *v1.Node) {
	if old != nil && old.Status.Allocatable.Cpu().Cmp(*now.Status.Allocatable.Cpu()) == 0 {
		return
	}
	if n := m.nodes.find(now.Name); n != nil {
		n.mu.Lock()
		m.size(n)
		n.mu.Unlock()
	}
}

// offNode forgets a node that was deleted. While its NodeTopology or its Lease still exists, the directory keeps the
// node. A garbage collector or the agent removes these objects.
func (m *machines) offNode(gone *v1.Node) {
	m.nodes.places.Store(nil)
	if n := m.nodes.find(gone.Name); n != nil {
		n.mu.Lock()
		m.size(n)
		n.mu.Unlock()
		m.nodes.forget(n)
	}
}

// size records what the informer shows that a node offers now. A node that does not exist offers nothing, and is in no
// snapshot. The caller holds n.mu.
func (m *machines) size(n *node) {
	n.allocatable = 0
	nodes := m.handle.SharedInformerFactory().Core().V1().Nodes().Lister()
	if shown, err := nodes.Get(n.name); err == nil {
		n.allocatable = shown.Status.Allocatable.Cpu().MilliValue()
	}
	n.weigh()
}
