package trial

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
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
}

// small is two NUMA nodes of 12 CPUs: three L3 domains each, of two cores with two threads. 22 of the 24 CPUs can be
// pinned: one core stays in the shared pool.
func small() shape { return shape{nodes: 2, l3: 3, cores: 2, threads: 2} }

func (s shape) cpus() int { return s.nodes * s.l3 * s.cores * s.threads }

// group is one entry of a list in the JSON of a topology.
type group struct {
	ID          int    `json:"id"`
	CPUs        string `json:"cpus"`
	MemoryBytes int64  `json:"memoryBytes,omitempty"`
	Distances   []int  `json:"distances,omitempty"`
}

type machine struct {
	Sockets  []group `json:"sockets"`
	Nodes    []group `json:"numaNodes"`
	L3       []group `json:"l3"`
	Cores    []core  `json:"cores"`
	Reserved string  `json:"reserved"`
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
		n := group{ID: i, CPUs: take(s.l3 * s.cores * s.threads), MemoryBytes: 128 << 30, Distances: far}
		m.Nodes = append(m.Nodes, n)
		m.Sockets = append(m.Sockets, group{ID: i, CPUs: n.CPUs})
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
	c.addNode(node(name, s.cpus()))
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
