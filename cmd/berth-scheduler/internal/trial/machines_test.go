package trial

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
)

// The resources that the agents write.
const (
	topologyPath = "/apis/berth.dev/v1alpha1/nodetopologies"
	leasePath    = "/apis/coordination.k8s.io/v1/leases"
)

// shape is a regular machine. Its CPU numbers run through the threads of a core, the cores of an L3 domain, and the
// domains of a NUMA node. Each NUMA node is one socket.
type shape struct {
	nodes, l3, cores, threads int
	reserved                  string
	// tight machines have so little memory that pods compete for it, and two devices. Others have plenty, and none.
	tight bool
}

// The memory of a NUMA node of a tight machine: 2 GiB in pages of 1 GiB; 512 MiB in pages of 2 MiB, in every second
// NUMA node only; the rest in other pages.
const (
	gi         = 1 << 30
	mi         = 1 << 20
	tightBytes = 8 * gi
	plenty     = 128 * gi
)

// card is the resource of the devices: one is in the first NUMA node, the other in the last.
const card = v1.ResourceName("example.com/card")

// tights are the machines of the storms: with one NUMA node, with two and with three.
func tights() []shape {
	return []shape{
		{nodes: 2, l3: 3, cores: 2, threads: 2, tight: true},
		{nodes: 1, l3: 2, cores: 4, threads: 2, reserved: "0-1", tight: true},
		{nodes: 2, l3: 1, cores: 6, threads: 1, tight: true},
		{nodes: 3, l3: 1, cores: 2, threads: 2, tight: true},
		{nodes: 1, l3: 1, cores: 2, threads: 4, tight: true},
	}
}

// small is two NUMA nodes of 12 CPUs: three L3 domains each, of two cores with two threads. 22 of the 24 CPUs can be
// pinned: one core stays in the shared pool.
func small() shape { return shape{nodes: 2, l3: 3, cores: 2, threads: 2} }

func (s shape) cpus() int { return s.nodes * s.l3 * s.cores * s.threads }

// pools returns the huge pages of a NUMA node.
func (s shape) pools(numa int) []pool {
	switch {
	case !s.tight:
		return nil
	case numa%2 == 0:
		return []pool{{PageKiB: 2 << 10, Pages: 256}, {PageKiB: 1 << 20, Pages: 2}}
	}
	return []pool{{PageKiB: 1 << 20, Pages: 2}}
}

// node returns the node that the machine's kubelet would register.
func (s shape) node(name string) *v1.Node {
	n := node(name, s.cpus())
	if !s.tight {
		return n
	}
	sums := map[v1.ResourceName]int64{v1.ResourceMemory: int64(s.nodes) * tightBytes, card: 2}
	for i := range s.nodes {
		for _, p := range s.pools(i) {
			sums[p.resource()] += p.bytes()
			sums[v1.ResourceMemory] -= p.bytes()
		}
	}
	for name, sum := range sums {
		n.Status.Allocatable[name] = *resource.NewQuantity(sum, resource.BinarySI)
	}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

// group is one entry of a list in the JSON of a topology.
type group struct {
	ID          int    `json:"id"`
	CPUs        string `json:"cpus"`
	MemoryBytes int64  `json:"memoryBytes,omitempty"`
	Huge        int64  `json:"hugePageBytes,omitempty"`
	HugePages   []pool `json:"hugePages,omitempty"`
	Distances   []int  `json:"distances,omitempty"`
}

// pool is the huge pages of one size in a NUMA node.
type pool struct {
	PageKiB int64 `json:"pageKiB"`
	Pages   int64 `json:"pages"`
}

func (p pool) bytes() int64 { return p.PageKiB << 10 * p.Pages }

func (p pool) resource() v1.ResourceName {
	return v1.ResourceName(v1.ResourceHugePagesPrefix + resource.NewQuantity(p.PageKiB<<10, resource.BinarySI).String())
}

type device struct {
	Resource string  `json:"resource"`
	Nodes    []int64 `json:"perNUMANode"`
}

type machine struct {
	Sockets  []group  `json:"sockets"`
	Nodes    []group  `json:"numaNodes"`
	L3       []group  `json:"l3"`
	Cores    []core   `json:"cores"`
	Reserved string   `json:"reserved"`
	Devices  []device `json:"devices,omitempty"`
}

type core struct {
	CPUs string `json:"cpus"`
}

// spec returns the topology that the machine's agent would publish.
func (s shape) spec(t testing.TB) v1alpha1.NodeTopologySpec {
	t.Helper()
	var m machine
	m.Reserved = s.reserved
	cpu := 0
	take := func(n int) string {
		cpu += n
		return fmt.Sprintf("%d-%d", cpu-n, cpu-1)
	}
	for range s.nodes * s.l3 * s.cores {
		m.Cores = append(m.Cores, core{CPUs: take(s.threads)})
	}
	cpu = 0
	for i := range s.nodes * s.l3 {
		m.L3 = append(m.L3, group{ID: i, CPUs: take(s.cores * s.threads)})
	}
	cpu = 0
	for i := range s.nodes {
		far := make([]int, s.nodes)
		for j := range far {
			far[j] = 20
		}
		far[i] = 10
		n := group{ID: i, CPUs: take(s.l3 * s.cores * s.threads), MemoryBytes: plenty, HugePages: s.pools(i), Distances: far}
		if s.tight {
			n.MemoryBytes = tightBytes
		}
		for _, p := range n.HugePages {
			n.Huge += p.bytes()
		}
		m.Nodes = append(m.Nodes, n)
		m.Sockets = append(m.Sockets, group{ID: i, CPUs: n.CPUs})
	}
	if s.tight {
		cards := make([]int64, s.nodes)
		cards[0]++
		cards[s.nodes-1]++
		m.Devices = []device{{Resource: string(card), Nodes: cards}}
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	topo, err := topology.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return topo.Spec()
}

// nodeTopology returns the NodeTopology that a healthy agent writes.
func nodeTopology(t testing.TB, name string, s shape) *v1alpha1.NodeTopology {
	t.Helper()
	return &v1alpha1.NodeTopology{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       s.spec(t),
		Status: v1alpha1.NodeTopologyStatus{
			AgentVersion:      "trial",
			PlacementVersions: []int64{v1alpha1.PlacementVersion},
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Trial"},
				{Type: v1alpha1.ConditionPinnable, Status: metav1.ConditionTrue, Reason: "Trial"},
			},
		},
	}
}

// publish stores a NodeTopology.
func (c *cluster) publish(n *v1alpha1.NodeTopology) {
	c.Helper()
	if err := c.api.Put(topologyPath, "", n.Name, n); err != nil {
		c.Fatal(err)
	}
}

// addMachine stores a node, its topology and its agent's Lease.
func (c *cluster) addMachine(name string, s shape) {
	c.Helper()
	c.publish(nodeTopology(c, name, s))
	c.renew(name, 0)
	c.addNode(s.node(name))
}

// renew writes the Lease of a node's agent with a renew time of that long ago.
func (c *cluster) renew(name string, ago time.Duration) {
	c.Helper()
	holder, seconds := name, int32(40)
	at := metav1.NewMicroTime(time.Now().Add(-ago))
	lease := &coordination.Lease{
		TypeMeta:   metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1alpha1.DefaultLeaseNamespace},
		Spec:       coordination.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at},
	}
	if err := c.api.Put(leasePath, v1alpha1.DefaultLeaseNamespace, name, lease); err != nil {
		c.Fatal(err)
	}
}
