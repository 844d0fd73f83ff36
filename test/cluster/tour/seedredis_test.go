package main

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/seeds"
)

// TestRedisInForce checks the percentages of local pages of each arm.
func TestRedisInForce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arm   string
		local float64
		want  bool
	}{
		{bench.AllLocal, 99, true},
		{bench.AllLocal, 43, false},
		{bench.AllRemote, 3, true},
		{bench.AllRemote, 43, false},
		{bench.Mixed, 43.5, true},
		{bench.Mixed, 0, false},
		{bench.MixedAgain, 41, true},
		{bench.MixedAgain, 98, false},
		{bench.MixedMoved, 98, true},
		{bench.MixedMoved, 43, false},
	} {
		if said := spreadMissing(c.arm, c.local); (said == "") != c.want {
			t.Errorf("%s with %g %% local pages: %q", c.arm, c.local, said)
		}
	}
}

// TestRedisPod checks the pod of all arms: only the annotation that the benchmark adds later moves its pages, and the
// program beside Redis sees its processes.
func TestRedisPod(t *testing.T) {
	t.Parallel()
	r := &redisPods{seedBench: &seedBench{node: "here", cpus: 8, limit: 4}, load: seeds.RedisLoad(true)}
	pod := r.server()
	keys := pod.Annotations
	if len(keys) != 1 || keys[v1alpha1.AnnotationCPUSetScheduler] != v1alpha1.CPUSetSchedulerOn || len(pod.Labels) > 0 {
		t.Errorf("annotations %q, labels %q", keys, pod.Labels)
	}
	redis, beside := pod.Spec.Containers[0], pod.Spec.Containers[1]
	if redis.Resources.Limits.Cpu().Value() != 4 || len(beside.Resources.Limits) > 0 || !*pod.Spec.ShareProcessNamespace {
		t.Errorf("limits %v and %v, one name space: %t", redis.Resources.Limits, beside.Resources.Limits, *pod.Spec.ShareProcessNamespace)
	}
}
