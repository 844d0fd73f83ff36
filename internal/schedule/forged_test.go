package schedule

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
)

// forged is a placement that would hold the first four CPUs.
func forged() string {
	return `{"v":1,"topology":"` + machine().Hash() + `","containers":{"app":{"cpus":"0-1,16-17","mems":"0","policy":"exclusive"}}}`
}

// An ordinary pod that brings a placement gets rid of it with its binding, however
// it is bound, and holds no CPU.
func TestForgedPlacementOfOrdinaryPod(t *testing.T) {
	tests := []struct {
		name, args, request string
		known               bool
	}{
		{"known node", `{"staleAfterSeconds":0}`, "1", true},
		{"no request", `{"staleAfterSeconds":0}`, "0", true},
		{"node without CPUs", `{"staleAfterSeconds":0}`, "1", false},
		{"patched", `{"staleAfterSeconds":0,"bindMode":"Patch"}`, "1", true},
		{"patched, node without CPUs", `{"staleAfterSeconds":0,"bindMode":"Patch"}`, "0", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, test.args, func(t *testing.T, c *cluster) {
				if test.known {
					c.node("n1")
				} else {
					c.bareNode("n1")
					c.settle()
				}
				forger := c.spec("forger", 4, requesting(test.request))
				forger.Annotations = map[string]string{v1alpha1.AnnotationPlacement: forged(), "example.com/kept": "yes"}
				c.create(forger)
				if a := c.schedule(forger); !a.status.IsSuccess() {
					t.Fatal(a.status.Message())
				}
				bound := c.get(forger)
				if bound.Spec.NodeName != "n1" || bound.Annotations[v1alpha1.AnnotationPlacement] != "" || bound.Annotations["example.com/kept"] != "yes" {
					t.Errorf("on %q with %v", bound.Spec.NodeName, bound.Annotations)
				}
				if test.known {
					c.placed(c.pod("a", 30))
				}
				plain := c.ordinary("plain", "1")
				c.schedule(plain)
				if _, found := c.get(plain).Annotations[v1alpha1.AnnotationPlacement]; found {
					t.Error("a pod that never had a placement got an empty one")
				}
			})
		})
	}
}
