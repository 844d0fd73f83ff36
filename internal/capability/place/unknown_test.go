package place_test

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
)

// The agent follows the known fields of a foreign key beside an unknown field, and reports the unknown field once.
func TestUnknownFieldOfForeignKey(t *testing.T) {
	n := place.New(two().facts(t))
	p := placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0")
	p.Annotations[v1alpha1.AnnotationResourceSpec] = `{"preferredCPUBindPolicy":"FullPCPUs","numaAllocateStrategy":"MostAllocated"}`
	n.Pods.Put(p)
	equal(t, "own", show(create(t, n, "redis", "redis").Own), "redis/redis 1,9!")
	got := events(n)
	if !strings.Contains(got, "InvalidPolicy") || !strings.Contains(got, "numaAllocateStrategy") {
		t.Errorf("events %q", got)
	}
	n.Pods.Put(p)
	equal(t, "once", events(n), "")
}
