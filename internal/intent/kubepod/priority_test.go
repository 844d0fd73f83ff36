package kubepod_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/internal/intent/kubepod"
)

// TestSystemPriority checks that Kubernetes' own pods are recognized by either field, because a static pod may have
// only one of them.
func TestSystemPriority(t *testing.T) {
	for _, test := range []struct {
		spec v1.PodSpec
		want bool
	}{
		{v1.PodSpec{}, false},
		{v1.PodSpec{PriorityClassName: "high", Priority: new(int32(1_000_000_000))}, false},
		{v1.PodSpec{PriorityClassName: "system-node-critical"}, true},
		{v1.PodSpec{Priority: new(int32(2_000_000_000))}, true},
	} {
		if got := kubepod.Of(&v1.Pod{Spec: test.spec}).SystemPriority; got != test.want {
			t.Errorf("%+v: %t", test.spec, got)
		}
	}
}
