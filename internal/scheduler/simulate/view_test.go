package simulate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/view"
)

// waiting are pods without a node: a pod that fits nowhere, a pod that fits, a pod of another scheduler, a pod behind a
// gate, and a pod that asks for nothing.
const waiting = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: large, namespace: shop, creationTimestamp: "2026-11-23T11:00:00Z", annotations: {cpuset-scheduler: "true"}}, spec: {priority: 5, schedulerName: berth-scheduler, containers: [{name: main, resources: {limits: {cpu: 64}}}]}, status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/3 nodes are available"}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: two, namespace: shop, annotations: {cpuset-scheduler: "true"}}, spec: {schedulerName: berth-scheduler, containers: [{name: a, resources: {limits: {cpu: 2}}}, {name: b, resources: {limits: {cpu: 1}}}]}, status: {phase: Pending}}
- {apiVersion: v1, kind: Pod, metadata: {name: foreign, namespace: shop}, spec: {schedulerName: volcano, containers: [{name: main}]}, status: {phase: Pending}}
- {apiVersion: v1, kind: Pod, metadata: {name: held, namespace: shop}, spec: {schedulerName: berth-scheduler, schedulingGates: [{name: shop.example/review}], containers: [{name: main}]}, status: {phase: Pending}}
`

// glance returns the cluster of the recorded pods, with some waiting pods.
func glance(t *testing.T) Objects {
	t.Helper()
	o := readFiles(t, "testdata/nodes.yaml", "testdata/live")
	more, err := Read([]string{"-"}, strings.NewReader(waiting))
	if err != nil {
		t.Fatal(err)
	}
	o.Pods = append(o.Pods, more.Pods...)
	return o
}

// TestView checks that nodes are sorted by their room, and that each pending pod has its reason.
func TestView(t *testing.T) {
	got, err := json.MarshalIndent(New(glance(t)).View(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "view.golden.json", append(got, '\n'))
}

// TestViewOfNodes checks that a node's obstacle is what keeps pods away, however much is free there.
func TestViewOfNodes(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	lease := func(name string, ago time.Duration) coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	}
	all := []coordinationv1.Lease{lease("node-a", 0), lease("node-b", 0), lease("node-c", 0)}
	const name = "node-b"
	for what, test := range map[string]struct {
		change func(*Objects)
		want   func(*view.Node)
	}{
		"open": {func(*Objects) {}, func(*view.Node) {}},
		"silent agent": {func(o *Objects) { o.Agents = AgentsOf(now, []coordinationv1.Lease{all[0], lease(name, time.Hour)}) }, func(n *view.Node) {
			n.Obstacle, n.Notes = "the Lease berth-system/node-b was renewed 1h0m0s ago, which may be 3m0s: does Berth's agent run there?", []string{}
		}},
		"no agent": {func(o *Objects) { o.Agents = AgentsOf(now, all[:1]) }, func(n *view.Node) {
			n.Obstacle, n.Notes = "no Lease berth-system/node-b: does Berth's agent run there?", []string{}
		}},
		"not pinnable": {func(o *Objects) {
			o.Topologies[1].Status.SetCondition(v1alpha1.ConditionPinnable, false, "KubeletCPUManager", "the kubelet has the policy static")
		}, func(n *view.Node) {
			n.Obstacle, n.Notes = "not pinnable: KubeletCPUManager: the kubelet has the policy static", []string{}
		}},
		"no topology": {func(o *Objects) { o.Topologies = o.Topologies[:1] }, func(n *view.Node) {
			*n = view.Node{Name: name, Pinned: 0, Pods: n.Pods, Obstacle: "no NodeTopology: does Berth's agent run there?", Notes: []string{}}
		}},
		"cordoned": {func(o *Objects) { o.Nodes[1].Spec.Unschedulable = true }, func(n *view.Node) { n.Notes = append([]string{"cordoned"}, n.Notes...) }},
	} {
		t.Run(what, func(t *testing.T) {
			find := func(v *view.Cluster) view.Node {
				for i, n := range v.Nodes {
					if n.Name == name {
						if closed := n.Obstacle != ""; closed && i+1 < len(v.Nodes) && v.Nodes[i+1].Obstacle == "" {
							t.Errorf("it comes before %s", v.Nodes[i+1].Name)
						}
						return n
					}
				}
				t.Fatal("it is not there")
				return view.Node{}
			}
			base := glance(t)
			base.Agents = AgentsOf(now, all)
			want := find(New(base).View())
			test.want(&want)
			changed := glance(t)
			changed.Agents = AgentsOf(now, all)
			test.change(&changed)
			if diff := cmp.Diff(want, find(New(changed).View())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestViewOfMany checks that pods beyond the maximum are only counted, and that unknown Leases are a problem.
func TestViewOfMany(t *testing.T) {
	o := glance(t)
	few := New(o).View().PendingTotal
	last := o.Pods[len(o.Pods)-1]
	for range view.MostPending {
		o.Pods = append(o.Pods, last)
	}
	o.Agents = Agents{At: time.Unix(1, 0), Unknown: `leases is forbidden: User "a" cannot list resource "leases"`}
	v := New(o).View()
	if v.PendingTotal != view.MostPending+few || few < 4 || len(v.Pending) != view.MostPending {
		t.Errorf("%d of %d", len(v.Pending), v.PendingTotal)
	}
	if want := []string{`not known whether Berth's agents run: leases is forbidden: User "a" cannot list resource "leases"`}; !cmp.Equal(v.Problems, want) {
		t.Errorf("%q", v.Problems)
	}
}
