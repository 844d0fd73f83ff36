package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/seeds"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// TestSeedFlags checks that invalid measurements are refused, and what is measured by default.
func TestSeedFlags(t *testing.T) {
	for _, args := range []string{"nginz", "--reps=-1", "--duration=-1s", "--no-such-flag", "apache --quick"} {
		if _, err := parseSeeds(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
	for args, want := range map[string]struct {
		repetitions int
		duration    time.Duration
		names       string
	}{
		"":                             {5, 15 * time.Second, ""},
		"--quick --out x apache":       {3, 5 * time.Second, "apache"},
		"--quick --reps 7 nginx redis": {7, 5 * time.Second, "nginx redis"},
		"--duration 2s":                {5, 2 * time.Second, ""},
	} {
		b, err := parseSeeds(strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if o := b.options; o.Repetitions != want.repetitions || o.Duration != want.duration || strings.Join(o.Names, " ") != want.names {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// TestNotInThisCluster checks the reasons of experiments that a node cannot have.
func TestNotInThisCluster(t *testing.T) {
	for _, c := range []struct {
		name, why  string
		cpus, numa int
	}{
		{"nginx", "lacks three CPUs", 2, 1},
		{"cal-pi", "lacks a second CPU", 1, 1},
		{"redis", "lacks a second NUMA node", 8, 1},
	} {
		_, err := (&seedBench{cpus: c.cpus, numa: c.numa}).openSeed(t.Context(), c.name)
		if !errors.Is(err, bench.ErrMissing) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s on %d CPUs and %d NUMA nodes: %v, want %q", c.name, c.cpus, c.numa, err, c.why)
		}
	}
}

// TestSeedPodsOfArms checks that arms differ only in what the documents change, and in the limit of the arm without
// one.
func TestSeedPodsOfArms(t *testing.T) {
	b := &seedBench{node: "here", cpus: 8, limit: 4}
	nginx := &nginxPods{seedBench: b, clients: 2, workers: 3}
	for _, c := range []struct {
		arm  string
		pod  *v1.Pod
		keys string
		cpus int64 // the limit
	}{
		{seeds.Limited, apachePods{b}.server(seeds.Limited), "", 4},
		{seeds.Limited + seeds.Again, apachePods{b}.server(seeds.Limited + seeds.Again), "", 4},
		{seeds.Burst, apachePods{b}.server(seeds.Burst), "app=apache-demo", 4},
		{seeds.Unlimited, apachePods{b}.server(seeds.Unlimited), "", 0},
		{seeds.Pinned, piPods{b}.computing(seeds.Arm{Name: seeds.Pinned}), "cpuset-scheduler=true", 4},
		{seeds.Pinned + seeds.Again, piPods{b}.computing(seeds.Arm{Name: seeds.Pinned + seeds.Again}), "cpuset-scheduler=true", 4},
		{seeds.StaticBurst, piPods{b}.computing(seeds.Arm{Name: seeds.StaticBurst}), "cpuset-scheduler=true cpu-policy=static-burst", 4},
		{seeds.Limited, piPods{b}.computing(seeds.Arm{Name: seeds.Limited}), "", 4},
		{seeds.AnyCPUs, nginx.server(seeds.AnyCPUs), "", 3},
		{seeds.AnyCPUs + seeds.Again, nginx.server(seeds.AnyCPUs + seeds.Again), "", 3},
		{seeds.Pinned, nginx.server(seeds.Pinned), "cpuset-scheduler=true", 3},
		{seeds.Scattered, nginx.server(seeds.Scattered), "cpuset-scheduler=true " + v1alpha1.AnnotationResourceSpec + "=" + spread, 3},
	} {
		var keys []string
		for _, key := range []string{"app", v1alpha1.AnnotationCPUSetScheduler, v1alpha1.AnnotationCPUPolicy, v1alpha1.AnnotationResourceSpec} {
			for _, all := range []map[string]string{c.pod.Labels, c.pod.Annotations} {
				if value, found := all[key]; found {
					keys = append(keys, key+"="+value)
				}
			}
		}
		limit := c.pod.Spec.Containers[0].Resources.Limits[v1.ResourceCPU]
		if strings.Join(keys, " ") != c.keys || len(c.pod.Labels)+len(c.pod.Annotations) != len(keys) || limit.Value() != c.cpus {
			t.Errorf("%s of %s: %q, labels %q, annotations %q, limit %s", c.arm, c.pod.Name, keys, c.pod.Labels, c.pod.Annotations, &limit)
		}
		if node := c.pod.Spec.NodeSelector[v1.LabelHostname]; node != "here" {
			t.Errorf("%s of %s goes to %q", c.arm, c.pod.Name, node)
		}
	}
}

// TestInForce checks the quotas and the CPUs of each arm.
func TestInForce(t *testing.T) {
	quota := func(cpus float64) cgroup.Bandwidth {
		is := cgroup.Bandwidth{Quota: unit.NoLimit, Period: bench.Period}
		if cpus > 0 {
			is.Quota = unit.CPUs(cpus).Quota(bench.Period)
		}
		return is
	}
	for _, c := range []struct {
		arm  string
		has  float64 // 0: none
		want bool
	}{
		{seeds.Limited, 1, true},
		{seeds.Limited, 3, false},
		{seeds.Limited, 0, false},
		{seeds.Limited, 0.5, false},
		{seeds.Limited + seeds.Again, 1, true},
		{seeds.Limited + seeds.Again, 1.2, false},
		{seeds.Burst, 3, true},
		{seeds.Burst, 1, false},
		{seeds.Burst, 1.5, true},
		{seeds.Burst, 0, false},
		{seeds.Unlimited, 0, true},
		{seeds.Unlimited, 1, false},
	} {
		if said := quotaMissing(c.arm, 1, quota(c.has)); (said == "") != c.want {
			t.Errorf("%s with %g CPUs: %q", c.arm, c.has, said)
		}
	}
	b := &seedBench{cpus: 8, limit: 2}
	nginx := &nginxPods{seedBench: b, clients: 2, workers: 3}
	for _, c := range []struct {
		missing func(string, cpuset.Set) string
		arm     string
		has     string
		want    bool
	}{
		{piPods{b}.missing, seeds.Pinned, "0-1", true},
		{piPods{b}.missing, seeds.Pinned, "0-2", false},
		{piPods{b}.missing, seeds.Pinned + seeds.Again, "0-7", false},
		{piPods{b}.missing, seeds.StaticBurst, "0-3", true},
		{piPods{b}.missing, seeds.StaticBurst, "0", false},
		{piPods{b}.missing, seeds.Limited, "0-7", true},
		{piPods{b}.missing, seeds.Limited, "0-5", false},
		{nginx.missing, seeds.AnyCPUs, "2-7", true},
		{nginx.missing, seeds.AnyCPUs + seeds.Again, "0-7", false},
		{nginx.missing, seeds.Pinned, "2-4", true},
		{nginx.missing, seeds.Scattered, "2,4,6", true},
		{nginx.missing, seeds.Pinned, "2-7", false},
	} {
		has, err := cpuset.Parse(c.has)
		if err != nil {
			t.Fatal(err)
		}
		if said := c.missing(c.arm, has); (said == "") != c.want {
			t.Errorf("%s on CPUs %s: %q", c.arm, c.has, said)
		}
	}
	if err := still(seeds.Arm{Name: seeds.Burst}, "x"); !errors.Is(err, bench.ErrChild) || still(seeds.Arm{}, "") != nil {
		t.Errorf("an arm that ended: %v", err)
	}
}

// TestParsePi reads what the pod prints, and refuses all else.
func TestParsePi(t *testing.T) {
	const said = "Cpus_allowed_list:\t1\ncomputing Pi with 3000 Threads...\ncomputed the first 20000 digets of pi in 2147 ms!\nCpus_allowed_list:\t0-1\n"
	pi, err := parsePi(said)
	if err != nil || pi.millis != 2147 || pi.first.String() != "1" {
		t.Errorf("%+v, %v", pi, err)
	}
	for _, other := range []string{"", "pi: killed\n", strings.ReplaceAll(said, "Cpus_allowed_list", "x"), strings.Replace(said, "2147", "", 1)} {
		if _, err := parsePi(other); !errors.Is(err, bench.ErrChild) {
			t.Errorf("%q: %v", other, err)
		}
	}
}
