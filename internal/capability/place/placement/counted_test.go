package placement_test

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
)

// During a resize, the larger of a pod's present and requested CPUs counts, and no other pod gets CPUs while the node
// chooses.
func TestCounted(t *testing.T) {
	m := shape{nodes: 2, l3: 1, cores: 4, threads: 2, memory: 16 * gi, reserved: "0,8"}.machine(t)
	resized := func(limit, held int64, resizing bool, terms ...string) workload.Pinning {
		p := pinningPod(t, limit, terms...)
		p.Containers[0].CPUHeld, p.Changed, p.Resizing = held, true, resizing
		out, problems := workload.PinningOf(p)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return out
	}
	stands := func(limit, now int64) workload.Pinning {
		p := pinningPod(t, limit)
		p.Containers[0].CPUStands, p.Changed, p.Resizing = now, true, true
		out, _ := workload.PinningOf(p)
		return out
	}
	infeasible := pinningPod(t, 6000)
	infeasible.Containers[0].CPUHeld, infeasible.Changed, infeasible.Infeasible = 2000, true, true
	never, _ := workload.PinningOf(infeasible)
	shared := pinningPod(t, 0)
	shared.CPULimit, shared.Changed, shared.Resizing = 4000, true, true
	shared.Containers = append(shared.Containers, workload.Container{Name: "more"})
	perPod, _ := workload.PinningOf(shared)
	both := v1alpha1.Placement{V: 1, Topology: hash, Containers: map[string]v1alpha1.ContainerPlacement{
		"app": {CPUs: "1,9", Mems: "0", Policy: v1alpha1.PlacementExclusive}, "more": {CPUs: "1,9", Mems: "0", Policy: v1alpha1.PlacementExclusive},
	}}.Encode()
	moved := func(movable, move string) workload.Pinning {
		p := pinningPod(t, 2000, v1alpha1.AnnotationMovable, movable, v1alpha1.AnnotationMove, move)
		out, _ := workload.PinningOf(p)
		return out
	}
	whole := []string{v1alpha1.AnnotationResourceSpec, `{"requiredCPUBindPolicy":"FullPCPUs"}`}
	for _, test := range []struct {
		name       string
		pod        workload.Pinning
		annotation string
		unknown    int
		extra      int64
		resizing   bool
	}{
		{"nothing changed", resized(2000, 0, false), written("1,9", "0"), 0, 1500, false},
		{"under way", resized(4000, 0, true), written("1,9", "0"), 2, 3500, true},
		{"the annotation follows", resized(4000, 0, true), written("1-2,9-10", "0"), 0, 3500, false},
		{"carried out, no CPUs yet", resized(4000, 0, false), written("1,9", "0"), 2, 3500, false},
		{"shrinking", stands(1000, 2000), written("1,9", "0"), 0, 1500, false},
		{"more than there are before, and now fewer", stands(4000, 40000), written("1,9", "0"), 2, 3500, true},
		{"shrinking, and the kubelet is not through", stands(1000, 2000), written("1", "0"), 1, 1500, true},
		{"growing, and the annotation follows first", stands(4000, 2000), written("1-2,9-10", "0"), 0, 3500, false},
		{"to fewer before the annotation has followed", stands(1000, 4000), written("1,9", "0"), 2, 3500, true},
		{"deferred", resized(4000, 2000, false), written("1,9", "0"), 2, 3500, false},
		{"deferred, to fewer", resized(1000, 2000, false), written("1,9", "0"), 0, 1500, false},
		{"infeasible", never, written("1,9", "0"), 0, 1500, false},
		{"more than there are", resized(40000, 0, true), written("1,9", "0"), 0, 1500, false},
		{"never on whole cores", resized(3000, 0, true, whole...), written("1,9", "0"), 0, 1500, false},
		{"all but the last core", resized(12000, 0, true), written("1,9", "0"), 10, 11500, true},
		{"of the pod", perPod, both, 2, 3500, true},
		{"moved", moved("true", `{"v":1,"from":"1,9","to":"2,10"}`), written("1,9", "0"), 2, 3500, true},
		{"moved by one CPU", moved("true", `{"v":1,"from":"1,9","to":"1-2"}`), written("1,9", "0"), 1, 2500, true},
		{"moved, and the annotation follows first", moved("true", `{"v":1,"from":"1,9","to":"2,10"}`), written("2,10", "0"), 2, 3500, true},
		{"moved halfway", moved("true", `{"v":1,"from":"1,9","to":"2,10"}`), written("1,2", "0"), 2, 3500, true},
		{"withdrawn, which the node has to answer", moved("true", `{"v":1,"from":"1,9","to":"2,10","withdrawn":true}`), written("1,9", "0"), 2, 3500, true},
		{"refused", moved("true", `{"v":1,"from":"1,9","to":"2,10","refused":"no"}`), written("1,9", "0"), 0, 1500, false},
		{"not movable any more, which the node has to answer", moved("false", `{"v":1,"from":"1,9","to":"2,10"}`), written("1,9", "0"), 2, 3500, true},
		{"to more", moved("true", `{"v":1,"from":"1,9","to":"2-3,10"}`), written("1,9", "0"), 0, 1500, false},
		{"to reserved CPUs", moved("true", `{"v":1,"from":"1,9","to":"0,8"}`), written("1,9", "0"), 0, 1500, false},
		{"from others", moved("true", `{"v":1,"from":"3,11","to":"2,10"}`), written("1,9", "0"), 0, 1500, false},
		{"no placement", resized(4000, 0, true), "", 4, 3500, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := placement.Counted(m, test.pod, placement.Believed(test.annotation))
			if h.Unknown() != test.unknown || h.ExtraMilli() != test.extra || h.Resizing() != test.resizing {
				t.Errorf("unknown %d, extra %d, resizing %v; want %d, %d, %v",
					h.Unknown(), h.ExtraMilli(), h.Resizing(), test.unknown, test.extra, test.resizing)
			}
			var o placement.Occupancy
			o.Add(m, &h)
			ask := placement.AskOf(one(t, 1))
			_, refusal := placement.Decide(new(alloc.Scratch), placement.Node{Machine: m, AllocatableMilli: 16000}, &o, &ask)
			if (refusal.Code == placement.Resizing) != test.resizing {
				t.Errorf("another pod: %q", refusal.Reason())
			}
		})
	}
}

// pinningPod returns a pod that asks for CPUs, with one container that requests half a CPU.
func pinningPod(t *testing.T, limit int64, terms ...string) workload.Pod {
	t.Helper()
	p := workload.Pod{
		Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}, Scheduled: 500,
		Containers: []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: limit, CPURequest: 500}}},
	}
	for i := 0; i < len(terms); i += 2 {
		p.Annotations[terms[i]] = terms[i+1]
	}
	return p
}
