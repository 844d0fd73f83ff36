package schedule

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// No agent pins a container inside a virtual machine. The pod is scheduled as an ordinary pod, and its limit is not
// held.
func TestVirtualMachines(t *testing.T) {
	class := func(name string) option {
		return func(p *v1.Pod) { p.Spec.RuntimeClassName = &name }
	}
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		vm := c.pod("vm", 14, requesting("2"), class("kata-qemu"))
		if a := c.schedule(vm); !a.status.IsSuccess() {
			t.Fatal(a.status.Message())
		}
		if text := c.get(vm).Annotations[v1alpha1.AnnotationPlacement]; text != "" {
			t.Errorf("it is placed: %s", text)
		}
		c.pod("bound elsewhere", 14, requesting("2"), class("kata"), func(p *v1.Pod) { p.Spec.NodeName = "n1" })
		if cpus := c.placed(c.pod("next", 28)); cpus.Size() != 28 {
			t.Errorf("the next pod has %s", cpus)
		}
	})
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		if cpus := c.placed(c.pod("none", 4, class("runsc"))); cpus.Size() != 4 {
			t.Errorf("a pod of another class has %s", cpus)
		}
	})
}
