package assignment_test

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/nri"
)

// Containers outside the pod's spec, such as those of kubectl debug, are in no limit of the pod. Burst must know them,
// because they use the quota of the pod's group.
func TestWorkloadsWithADebugger(t *testing.T) {
	for name, test := range map[string]struct {
		annotation string
		ofPod      int64
		want       bool
	}{
		"bursts":                    {`{"policy":"auto"}`, 0, true},
		"does not burst":            {`{"policy":"none"}`, 0, false},
		"the pod as a whole bursts": {`{"policy":"auto"}`, 3000, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := plainPod("debugged")
			p.Annotations = map[string]string{v1alpha1.AnnotationCPUBurst: test.annotation}
			p.CPULimit = test.ofPod
			n := open(t)
			n.Take(snapshot(p))
			start(t, n, p)
			e := event(nri.Start, p)
			e.Container = nri.Container{ID: "d", PodID: e.Pod.ID, Name: "debugger-x7", CgroupPath: "kubepods/poddebugged/d"}
			handle(t, n, e)
			all, _ := n.Workloads()
			i := slices.IndexFunc(all, func(w workload.Workload) bool { return w.Name == "ns/debugged/debugger-x7" })
			if (i >= 0) != test.want {
				t.Fatalf("workloads %+v", all)
			}
			if i < 0 {
				return
			}
			if w := all[i]; w.Limit != 0 || w.Cgroup != "kubepods/poddebugged/d" || !w.Pod.Derived {
				t.Errorf("workload %+v", w)
			}
			e.Kind = nri.Stop
			handle(t, n, e)
			if all, _ := n.Workloads(); len(all) != 1 {
				t.Errorf("after its end %+v", all)
			}
		})
	}
}
