package kubepod_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/intent/workload"
)

func pod(t *testing.T, text string) *v1.Pod {
	t.Helper()
	var p v1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

const everything = `
metadata: {name: web, namespace: shop, uid: u-1, labels: {a: b}, annotations: {cpuset-scheduler: "true"}}
spec:
  overhead: {cpu: 250m}
  resources: {requests: {cpu: "5", memory: 3Gi}, limits: {cpu: "8"}}
  initContainers:
  - {name: prepare, resources: {requests: {cpu: "1"}, limits: {cpu: "6"}}}
  - {name: mesh, restartPolicy: Always, resources: {requests: {cpu: 100m}, limits: {cpu: "1", memory: 64Mi}}}
  containers:
  - {name: app, resources: {requests: {cpu: "2.5", memory: 1Gi}, limits: {cpu: "4"}}}
  - {name: log}
`

func TestOf(t *testing.T) {
	const mi = 1 << 20
	got := kubepod.Of(pod(t, everything))
	want := workload.Pod{
		Namespace: "shop", Name: "web", UID: "u-1",
		Labels:      map[string]string{"a": "b"},
		Annotations: map[string]string{"cpuset-scheduler": "true"},
		Containers: []workload.Container{
			{Name: "app", Resources: workload.Resources{CPURequest: 2500, CPULimit: 4000, MemoryRequest: 1024 * mi}},
			{Name: "log"},
			{Name: "mesh", Sidecar: true, After: 1, Resources: workload.Resources{CPURequest: 100, CPULimit: 1000, MemoryLimit: 64 * mi}},
		},
		Init:      []workload.Container{{Name: "prepare", Resources: workload.Resources{CPURequest: 1000, CPULimit: 6000}}},
		Resources: workload.Resources{CPURequest: 5000, CPULimit: 8000, MemoryRequest: 3072 * mi},
		Scheduled: 5250, Overhead: 250, Besides: workload.Besides{ScheduledMemory: 3072 * mi},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

// TestScheduled checks the cases in which the result is not simply the sum.
func TestScheduled(t *testing.T) {
	for _, test := range []struct {
		name, spec string
		want       int64
	}{
		{"nothing said", `{containers: [{name: a}]}`, 0},
		{"sum", `{containers: [{name: a, resources: {requests: {cpu: 1}}}, {name: b, resources: {requests: {cpu: 500m}}}]}`, 1500},
		{"a limit alone is no request", `{containers: [{name: a, resources: {limits: {cpu: 4}}}]}`, 0},
		{"fractions of a thousandth", `{containers: [{name: a, resources: {requests: {cpu: 100u}}}]}`, 1},
		{"init larger", `{initContainers: [{name: i, resources: {requests: {cpu: 3}}}], containers: [{name: a, resources: {requests: {cpu: 1}}}]}`, 3000},
		{"init beside a sidecar", `{initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 2}}}, {name: i, resources: {requests: {cpu: 3}}}], containers: [{name: a, resources: {requests: {cpu: 1}}}]}`, 5000},
		{"overhead", `{overhead: {cpu: 100m}, containers: [{name: a, resources: {requests: {cpu: 1}}}]}`, 1100},
		{"the pod's own", `{resources: {requests: {cpu: 7}}, containers: [{name: a, resources: {requests: {cpu: 1}}}]}`, 7000},
	} {
		if got := kubepod.Scheduled(pod(t, "spec: "+test.spec)); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// TestHugePages checks that huge pages are counted by size: per container, per pod, and in total for the node.
func TestHugePages(t *testing.T) {
	const gi = 1 << 30
	got := kubepod.Of(pod(t, `
spec:
  initContainers: [{name: i, resources: {requests: {hugepages-2Mi: 6Gi}}}]
  containers:
  - {name: a, resources: {limits: {hugepages-2Mi: 1Gi, hugepages-1Gi: 4Gi}, requests: {hugepages-2Mi: 1Gi, hugepages-1Gi: 4Gi}}}
  - {name: b, resources: {limits: {hugepages-64Ki: 0, hugepages-1Gi: 2Gi}}}
  - {name: c, resources: {requests: {hugepages-x: 2Gi, hugepages-2Mi: 1Gi, hugepages-0: 1, hugepages-9Ei: 1}}}
`))
	for _, test := range []struct {
		what      string
		got, want workload.HugePages
	}{
		{"a", got.Containers[0].Huge, workload.HugePages{{Size: 2 << 20, Bytes: gi}, {Size: gi, Bytes: 4 * gi}}},
		{"b", got.Containers[1].Huge, workload.HugePages{{Size: gi, Bytes: 2 * gi}}},
		{"c", got.Containers[2].Huge, workload.HugePages{{Size: 2 << 20, Bytes: gi}}},
		{"the pod", got.ScheduledHuge, workload.HugePages{{Size: 2 << 20, Bytes: 6 * gi}, {Size: gi, Bytes: 4 * gi}}},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v, want %v", test.what, test.got, test.want)
		}
	}
}

// TestResize checks the steps of a resize of a pod's request and limit from 2 to 4.
func TestResize(t *testing.T) {
	const spec = `
metadata: {generation: 2}
spec: {containers: [{name: a, resources: {requests: {cpu: 4}, limits: {cpu: 4}}}]}
status: `
	for _, test := range []struct {
		name, status string
		want         int64
	}{
		{"not seen yet", `{containerStatuses: [{name: a, allocatedResources: {cpu: 2}, resources: {requests: {cpu: 2}, limits: {cpu: 2}}}]}`, 4000},
		{"infeasible", `{conditions: [{type: PodResizePending, status: "True", reason: Infeasible}], containerStatuses: [{name: a, allocatedResources: {cpu: 2}, resources: {requests: {cpu: 2}, limits: {cpu: 2}}}]}`, 2000},
		{"down from 6, still running", `{containerStatuses: [{name: a, allocatedResources: {cpu: 4}, resources: {requests: {cpu: 6}, limits: {cpu: 6}}}]}`, 6000},
		{"done", `{containerStatuses: [{name: a, allocatedResources: {cpu: 4}, resources: {requests: {cpu: 4}, limits: {cpu: 4}}}]}`, 4000},
	} {
		p := pod(t, spec+test.status)
		got := kubepod.Of(p)
		if c := got.Containers[0]; c.CPURequest != test.want || c.CPULimit != 4000 || got.Scheduled != test.want || !got.Changed {
			t.Errorf("%s: %+v, scheduled %d, changed %t; want %d and the limit of the spec", test.name, c, got.Scheduled, got.Changed, test.want)
		}
	}
}

func TestComplete(t *testing.T) {
	for phase, want := range map[v1.PodPhase]bool{
		"": false, v1.PodPending: false, v1.PodRunning: false, v1.PodUnknown: false, v1.PodSucceeded: true, v1.PodFailed: true,
	} {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Status: v1.PodStatus{Phase: phase}}
		if got := kubepod.Complete(&p); got != want {
			t.Errorf("phase %q: %t", phase, got)
		}
	}
}

func TestSetDefaults(t *testing.T) {
	for _, test := range []struct{ name, spec, want string }{
		{
			"request from limit", `{containers: [{name: a, resources: {limits: {cpu: 4, memory: 1Gi}, requests: {cpu: 1}}}]}`,
			`{containers: [{name: a, resources: {limits: {cpu: 4, memory: 1Gi}, requests: {cpu: 1, memory: 1Gi}}}]}`,
		},
		{
			"init containers too", `{initContainers: [{name: a, resources: {limits: {cpu: 4}}}]}`,
			`{initContainers: [{name: a, resources: {limits: {cpu: 4}, requests: {cpu: 4}}}]}`,
		},
		{
			"the pod's from containers", `{resources: {limits: {cpu: 8, memory: 1Gi}}, containers: [{name: a, resources: {requests: {cpu: 3}}}]}`,
			`{resources: {limits: {cpu: 8, memory: 1Gi}, requests: {cpu: 3, memory: 1Gi}}, containers: [{name: a, resources: {requests: {cpu: 3}}}]}`,
		},
		{
			"the pod's without a limit", `{resources: {requests: {cpu: 8}}, containers: [{name: a, resources: {requests: {memory: 3}}}]}`,
			`{resources: {requests: {cpu: 8}}, containers: [{name: a, resources: {requests: {memory: 3}}}]}`,
		},
	} {
		got := pod(t, "spec: "+test.spec)
		kubepod.SetDefaults(got)
		if diff := cmp.Diff(pod(t, "spec: "+test.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestHuge checks that no quantity overflows a sum.
func TestHuge(t *testing.T) {
	p := pod(t, `
metadata: {annotations: {cpuset-scheduler: "true"}}
spec:
  containers:
  - {name: a, resources: {requests: {cpu: "9223372036854775807", memory: 9223372036854775807}, limits: {cpu: "9223372036854775807"}}}
  - {name: b, resources: {requests: {cpu: "9223372036854775807", memory: 9223372036854775807}, limits: {cpu: "9223372036854775807"}}}
`)
	got, problems := workload.PinningOf(kubepod.Of(p))
	if len(problems) > 0 || got.CPUs() <= 1024 || got.BeyondMilli([]int64{1, 1}, nil) < 0 || got.Scheduled <= 0 {
		t.Errorf("%+v, %v", got, problems)
	}
}

func TestMayPin(t *testing.T) {
	for _, c := range []struct {
		name, pod string
		want      bool
	}{
		{"asks", `{metadata: {annotations: {cpuset-scheduler: "true"}}}`, true},
		{"does not", `{metadata: {annotations: {a: "true"}}, spec: {runtimeClassName: runc}}`, false},
		{"asks, class of containers", `{metadata: {annotations: {cpuset-scheduler: "true"}}, spec: {runtimeClassName: runsc}}`, true},
		{"asks, class of machines", `{metadata: {annotations: {cpuset-scheduler: "true"}}, spec: {runtimeClassName: kata-clh}}`, false},
	} {
		if got := kubepod.MayPin(pod(t, c.pod)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
