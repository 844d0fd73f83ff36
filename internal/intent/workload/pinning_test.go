package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
)

const (
	cpusetOn     = "cpuset-scheduler"
	cpuPolicy    = "cpu-policy"
	resources    = "scheduling.koordinator.sh/resource-spec"
	numa         = "scheduling.koordinator.sh/numa-topology-spec"
	qosClass     = "koordinator.sh/qosClass"
	placementKey = "berth.dev/placement"
	byKey        = "annotation cpuset-scheduler"
	byClass      = "label koordinator.sh/qosClass"
	fullPCPUs    = v1alpha1.CPUBindFullPCPUs
)

type keys = map[string]string

// pod returns a pod with containers given as "name limit/request", in
// thousandths of a CPU.
func pod(labels, annotations keys, containers ...Container) Pod {
	return Pod{Labels: labels, Annotations: annotations, Containers: containers, Scheduled: 77}
}

func on(more ...string) keys {
	k := keys{cpusetOn: "true"}
	for i := 0; i < len(more); i += 2 {
		k[more[i]] = more[i+1]
	}
	return k
}

func TestPinning(t *testing.T) {
	app := Container{Name: "app", Resources: Resources{CPULimit: 4000, CPURequest: 1000, MemoryLimit: 8}}
	side := Container{Name: "side", Sidecar: true, Resources: Resources{CPULimit: 2000, CPURequest: 2000, MemoryRequest: 3}}
	half := Container{Name: "half", Resources: Resources{CPULimit: 2500, CPURequest: 500}}
	free := Container{Name: "free"}
	pinnedApp := PinnedContainer{Name: "app", CPUs: 4, Limit: 4000, Request: 1000, Memory: 8}
	plain := Pinning{Wanted: true, Source: byKey, Pinned: []PinnedContainer{pinnedApp}, Bind: fullPCPUs, Scheduled: 77}
	with := func(change func(*Pinning)) Pinning {
		p := plain
		p.Pinned = slices.Clone(p.Pinned)
		change(&p)
		return p
	}
	tests := []struct {
		name string
		pod  Pod
		want Pinning
		cpus int
	}{
		{"not asked", pod(nil, nil, app), Pinning{}, 0},
		{"said no", pod(nil, keys{cpusetOn: "false"}, app), Pinning{}, 0},
		{"no beats the class", pod(keys{qosClass: "LSR"}, keys{cpusetOn: "false"}, app), Pinning{}, 0},
		{"other classes do not ask", pod(keys{qosClass: "LS"}, nil, app), Pinning{}, 0},
		{"keys of those who do not ask", pod(keys{qosClass: "LS"}, keys{resources: "{"}, app), Pinning{}, 0},
		{"by annotation", pod(nil, on(), app), plain, 4},
		{"by annotation, class LS", pod(keys{qosClass: "LS"}, on(), app), plain, 4},
		{"by class LSR", pod(keys{qosClass: "LSR"}, nil, app), with(func(p *Pinning) { p.Source = byClass }), 4},
		{"by class LSE", pod(keys{qosClass: "LSE"}, nil, app), with(func(p *Pinning) { p.Source = byClass }), 4},
		{
			"fractions and the unlimited stay shared", pod(nil, on(), half, app, free),
			with(func(p *Pinning) {
				p.Others = []PinnedContainer{{Name: "half", CPUs: 3, Limit: 2500, Request: 500}, {Name: "free"}}
			}), 4,
		},
		{
			"sidecars count, the largest comes first", pod(nil, on(), side, app),
			with(func(p *Pinning) {
				p.Pinned = []PinnedContainer{pinnedApp, {Name: "side", CPUs: 2, Limit: 2000, Request: 2000, Memory: 3, MemoryRequest: 3}}
			}), 6,
		},
		{
			"init containers do not",
			Pod{Annotations: on(), Containers: []Container{app}, Init: []Container{{Name: "once", Resources: Resources{CPULimit: 2000, CPURequest: 2000}}}, Scheduled: 77},
			with(func(p *Pinning) { p.Pinned[0].After, p.Init = 1, []int64{2000} }), 4,
		},
		{
			"static-burst rounds up", pod(nil, on(cpuPolicy, "static-burst"), half, app, free),
			with(func(p *Pinning) {
				p.StaticBurst = true
				p.Pinned = []PinnedContainer{pinnedApp, {Name: "half", CPUs: 3, Limit: 2500, Request: 500}}
				p.Others = []PinnedContainer{{Name: "free"}}
			}), 7,
		},
		{
			"ConstrainedBurst is static-burst", pod(nil, on(resources, `{"requiredCPUBindPolicy":"ConstrainedBurst"}`), app),
			with(func(p *Pinning) { p.StaticBurst = true }), 4,
		},
		{
			"also preferred, and beside another", pod(nil, on(resources, `{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"ConstrainedBurst"}`), app),
			with(func(p *Pinning) { p.BindRequired = true }), 4,
		},
		{
			"required beats preferred", pod(nil, on(resources, `{"preferredCPUBindPolicy":"FullPCPUs","requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel","requiredCPUExclusivePolicy":"NUMANodeLevel"}`), app),
			with(func(p *Pinning) {
				p.Bind, p.BindRequired = v1alpha1.CPUBindSpreadByPCPUs, true
				p.Exclusive, p.ExclusiveRequired = v1alpha1.CPUExclusiveNUMANodeLevel, true
			}), 4,
		},
		{
			"preferred alone", pod(nil, on(resources, `{"preferredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}`), app),
			with(func(p *Pinning) {
				p.Bind, p.Exclusive = v1alpha1.CPUBindSpreadByPCPUs, v1alpha1.CPUExclusivePCPULevel
			}), 4,
		},
		{
			"a required None ends it", pod(nil, on(resources, `{"requiredCPUExclusivePolicy":"None","preferredCPUExclusivePolicy":"PCPULevel","requiredCPUBindPolicy":"Default"}`), app),
			plain, 4,
		},
		{
			"NUMA", pod(nil, on(numa, `{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Required","numaAllocateStrategy":"DistributeEvenly"}`), app),
			with(func(p *Pinning) {
				p.NUMA, p.NUMAExclusive = v1alpha1.NUMASingleNUMANode, v1alpha1.NUMAExclusiveRequired
				p.Strategy = v1alpha1.NUMADistributeEvenly
			}), 4,
		},
		{
			"a limit of the pod",
			Pod{Annotations: on(), Resources: Resources{CPULimit: 6000, CPURequest: 5000, MemoryRequest: 9}, Containers: []Container{{Name: "b", Resources: Resources{CPURequest: 1000}}, {Name: "a"}}},
			Pinning{
				Wanted: true, Source: byKey, PerPod: true, Bind: fullPCPUs, PodMemory: 9,
				Pinned: []PinnedContainer{{Name: "a", CPUs: 6, Limit: 6000, Memory: 9}, {Name: "b", CPUs: 6, Limit: 6000, Request: 1000, Memory: 9}},
			},
			6,
		},
		{
			"a limit of the pod, requests of containers",
			Pod{Annotations: on(cpuPolicy, "static-burst"), Resources: Resources{CPULimit: 1500}, Containers: []Container{{Name: "b", Resources: Resources{CPURequest: 1000}}, {Name: "a", Resources: Resources{CPURequest: 250}}}},
			Pinning{
				Wanted: true, Source: byKey, PerPod: true, StaticBurst: true, Bind: fullPCPUs,
				Pinned: []PinnedContainer{{Name: "a", CPUs: 2, Limit: 1500, Request: 250}, {Name: "b", CPUs: 2, Limit: 1500, Request: 1000}},
			},
			2,
		},
		{
			"limits of containers beat the pod's",
			Pod{Annotations: on(), Resources: Resources{CPULimit: 6000, MemoryLimit: 5}, Containers: []Container{half, app}, Scheduled: 77},
			with(func(p *Pinning) {
				p.PodMemory, p.Others = 5, []PinnedContainer{{Name: "half", CPUs: 3, Limit: 2500, Request: 500, Memory: 5}}
			}), 4,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, problems := PinningOf(test.pod)
			if len(problems) > 0 {
				t.Fatalf("problems: %v", problems)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("pinning (-want +got):\n%s", diff)
			}
			if n := got.CPUs(); n != test.cpus {
				t.Errorf("%d CPUs, want %d", n, test.cpus)
			}
			if got.Wanted && !MayPin(test.pod.Labels, test.pod.Annotations) {
				t.Error("MayPin says no")
			}
		})
	}
}

func TestPinningRefused(t *testing.T) {
	app := Container{Name: "app", Resources: Resources{CPULimit: 4000}}
	half := Container{Name: "half", Resources: Resources{CPULimit: 500}}
	tests := []struct {
		name string
		pod  Pod
		want string
	}{
		{"not a bool", pod(nil, keys{cpusetOn: "yes"}, app), `field metadata.annotations[cpuset-scheduler]: value "yes": allowed: "true" or "false" (in quotes)`},
		{"empty", pod(nil, keys{cpusetOn: ""}, app), `field metadata.annotations[cpuset-scheduler]: value "": allowed: "true" or "false" (in quotes)`},
		{"no whole limit", pod(nil, on(), half, Container{Name: "b", Resources: Resources{CPULimit: 1500}}), `field spec.containers[*].resources.limits.cpu: value "500m", "1500m": allowed: a whole number of CPUs, 1 or more (annotation cpuset-scheduler) in at least one container`},
		{"no limit", pod(keys{qosClass: "LSR"}, nil, Container{Name: "a"}), `field spec.containers[*].resources.limits.cpu: missing: allowed: a whole number of CPUs, 1 or more (label koordinator.sh/qosClass) in at least one container`},
		{"no limit to round up", pod(nil, on(cpuPolicy, "static-burst"), Container{Name: "a"}), `field spec.containers[*].resources.limits.cpu: missing: allowed: a limit above 0 (annotation cpuset-scheduler) in at least one container`},
		{"no whole limit of the pod", Pod{Annotations: on(), Resources: Resources{CPULimit: 1500}, Containers: []Container{{Name: "a"}}}, `field spec.resources.limits.cpu: value "1500m": allowed: a whole number of CPUs, 1 or more (annotation cpuset-scheduler)`},
		{"no limit of a workload", Pod{UID: UIDPrefix + "w", Annotations: on(), Containers: []Container{{Name: "a"}}}, `field spec.cpu.limit: missing: allowed: a whole number of CPUs, 1 or more (annotation cpuset-scheduler), there or as the limit of the group`},
		{"no whole limit of a workload", Pod{UID: UIDPrefix + "w", Annotations: on(), Containers: []Container{{Name: "a", Resources: Resources{CPULimit: 1500}}}}, `field spec.cpu.limit: value "1500m": allowed: a whole number of CPUs, 1 or more (annotation cpuset-scheduler), there or as the limit of the group`},
		{"no containers", Pod{Annotations: on(), Resources: Resources{CPULimit: 1000}}, `field spec.containers[*].resources.limits.cpu: missing: allowed: a whole number of CPUs, 1 or more (annotation cpuset-scheduler) in at least one container`},
		{"unknown class", pod(keys{qosClass: "LSX"}, nil, app), `field metadata.labels[koordinator.sh/qosClass]: value "LSX": allowed: one of LSE, LSR, LS, BE, SYSTEM`},
		{"offline", pod(keys{qosClass: "BE"}, on(), app), `field metadata.labels[koordinator.sh/qosClass]: value "BE": allowed: LSE, LSR or LS for a pod with exclusive CPUs (annotation cpuset-scheduler: "true")`},
		{"unknown policy", pod(nil, on(cpuPolicy, "static"), app), `field metadata.annotations[cpu-policy]: value "static": allowed: only static-burst`},
		{"policy alone", pod(nil, keys{cpuPolicy: "static-burst"}, app), `field metadata.annotations[cpu-policy]: value "static-burst": only allowed with cpuset-scheduler: "true"`},
		{"wrong enum", pod(nil, on(resources, `{"preferredCPUBindPolicy":"Full"}`), app), `field metadata.annotations[scheduling.koordinator.sh/resource-spec].preferredCPUBindPolicy: value "Full": allowed: one of Default, FullPCPUs, SpreadByPCPUs, ConstrainedBurst`},
		{"wrong NUMA", pod(nil, on(numa, `{"numaTopologyPolicy":"single"}`), app), `field metadata.annotations[scheduling.koordinator.sh/numa-topology-spec].numaTopologyPolicy: value "single": allowed: one of BestEffort, Restricted, SingleNUMANode`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, problems := PinningOf(test.pod)
			if diff := cmp.Diff(test.want, problems.Error()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if got.Wanted || got.CPUs() != 0 || len(got.Pinned) != 0 {
				t.Errorf("something is pinned all the same: %+v", got)
			}
		})
	}
}

// TestPinningOfPlaced checks how a placement is read when the annotations do not ask for CPUs, or no longer do.
func TestPinningOfPlaced(t *testing.T) {
	app, half := Container{Name: "app", Resources: Resources{CPULimit: 4000, CPURequest: 1000}}, Container{Name: "half", Resources: Resources{CPULimit: 2500}}
	others := []PinnedContainer{{Name: "half", CPUs: 3, Limit: 2500}, {Name: "app", CPUs: 4, Limit: 4000, Request: 1000}}
	for _, test := range []struct {
		name        string
		annotations keys
		want        Pinning
		problem     bool
	}{
		{"no keys", keys{placementKey: "{}"}, Pinning{Others: others, Scheduled: 77}, false},
		{"said no", keys{placementKey: "{}", cpusetOn: "false"}, Pinning{Others: others, Scheduled: 77}, false},
		{"a mistake", on(placementKey, "{}", cpuPolicy, "x"), Pinning{Source: byKey, Others: others, Scheduled: 77}, true},
	} {
		got, problems := PinningOf(pod(nil, test.annotations, half, app))
		if diff := cmp.Diff(test.want, got); diff != "" || (len(problems) > 0) != test.problem {
			t.Errorf("%s: %v, pinning (-want +got):\n%s", test.name, problems, diff)
		}
		if !MayPin(nil, test.annotations) {
			t.Errorf("%s: MayPin says no", test.name)
		}
	}
	got, _ := PinningOf(Pod{Annotations: keys{placementKey: "{}"}, Resources: Resources{CPULimit: 2000}, Containers: []Container{{Name: "a"}}, Changed: true})
	if !got.PerPod || !got.Change.Changed || got.Others[0].CPUs != 2 {
		t.Errorf("a limit of the pod: %+v", got)
	}
}

// TestBeyond checks pods whose need is not the sum of their containers' CPUs beyond the requests.
func TestBeyond(t *testing.T) {
	app := Container{Name: "app", Resources: Resources{CPULimit: 20_000, CPURequest: 1000}}
	side := Container{Name: "side", Sidecar: true, Resources: Resources{CPULimit: 4000, CPURequest: 1000}}
	late := side
	late.After = 1
	free := Container{Name: "free", Resources: Resources{CPURequest: 5000}}
	once := []Container{{Name: "once", Resources: Resources{CPURequest: 20_000}}}
	for _, test := range []struct {
		name string
		pod  Pod
		want int64
	}{
		{"request below limit", Pod{Containers: []Container{app, free}, Scheduled: 6000}, 19_000},
		{"an init container as large", Pod{Containers: []Container{app}, Init: once, Scheduled: 20_000}, 0},
		{"an init container and others", Pod{Containers: []Container{app, free}, Init: once, Scheduled: 20_000}, 5000},
		{"a sidecar beside it", Pod{Containers: []Container{side}, Init: once, Scheduled: 21_000}, 3000},
		{"a sidecar after it", Pod{Containers: []Container{late}, Init: once, Scheduled: 20_000}, 0},
		{"the pod requests more", Pod{Containers: []Container{side}, Resources: Resources{CPURequest: 8000}, Scheduled: 8000}, 0},
		{"the pod requests less", Pod{Containers: []Container{side}, Resources: Resources{CPURequest: 2000}, Scheduled: 2000}, 2000},
		{"overhead", Pod{Containers: []Container{side}, Scheduled: 1250, Overhead: 250}, 3000},
		{"one set for all", Pod{Containers: []Container{{Name: "a", Resources: Resources{CPURequest: 1000}}, {Name: "b", Resources: Resources{CPURequest: 1000}}}, Resources: Resources{CPULimit: 4000}, Scheduled: 2100, Overhead: 100}, 2000},
		{"one set for all, init", Pod{Containers: []Container{{Name: "a", Resources: Resources{CPURequest: 1000}}}, Resources: Resources{CPULimit: 4000}, Init: once, Scheduled: 20_000}, 0},
	} {
		test.pod.Annotations = on()
		p, problems := PinningOf(test.pod)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := p.BeyondMilli([]int64{p.Pinned[0].Limit}, nil); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// FuzzPinning checks that no pod causes a failure, and that the annotations take effect completely or not at all.
func FuzzPinning(f *testing.F) {
	f.Add("true", "static-burst", `{"requiredCPUBindPolicy":"FullPCPUs"}`, `{"numaTopologyPolicy":"Restricted"}`, "LSR", int64(2500))
	f.Add("yes", "", "null", "[", "BE", int64(-1))
	f.Add("true", "static-burst", "{}", "{}", "", int64(1)<<62)
	f.Fuzz(func(t *testing.T, asked, policy, spec, topology, class string, limit int64) {
		annotations := keys{cpusetOn: asked, cpuPolicy: policy, resources: spec, numa: topology}
		p := pod(keys{qosClass: class}, annotations, Container{Name: "a", Resources: Resources{CPULimit: limit}}, Container{Name: "b", Resources: Resources{CPULimit: limit}})
		got, problems := PinningOf(p)
		if got.Wanted && len(problems) > 0 {
			t.Fatalf("%+v with %v", got, problems)
		}
		if got.Wanted && (got.CPUs() < 1 || got.Bind == "") {
			t.Fatalf("wanted without CPUs: %+v", got)
		}
		for _, problem := range problems {
			if problem.Field == "" || problem.Allowed == "" || strings.Contains(problem.Field, "\n") {
				t.Fatalf("a problem that helps no user: %+v", problem)
			}
		}
	})
}

// TestMayPinByClass checks that a class which asks for no CPUs is no reason to read a pod's annotations. A class that
// asks for CPUs is, and so is an unknown class.
func TestMayPinByClass(t *testing.T) {
	for class, want := range map[string]bool{"LS": false, "BE": false, "SYSTEM": false, "": false, "LSE": true, "LSR": true, "ls": true} {
		labels := keys{qosClass: class}
		pinning, problems := PinningOf(Pod{Labels: labels, Containers: []Container{{Name: "app", Resources: Resources{CPULimit: 4000}}}})
		if got := MayPin(labels, nil); got != want || !got && (pinning.Wanted || len(problems) > 0) {
			t.Errorf("class %q: MayPin says %t, PinningOf %+v, %v", class, got, pinning, problems)
		}
		if !MayPin(labels, keys{cpusetOn: "true"}) {
			t.Errorf("class %q with an annotation: MayPin says no", class)
		}
	}
}
