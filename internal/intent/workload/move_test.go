package workload

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
)

// TestMove checks that a move is read whoever wrote it, and that the pod's consent is reported separately.
func TestMove(t *testing.T) {
	app := Container{Name: "app", Resources: Resources{CPULimit: 4000}}
	const move = `{"v":1,"from":"0-3","to":"4-7"}`
	tests := []struct {
		name        string
		annotations []string
		claims      bool
		movable     bool
		asked       bool
	}{
		{"nothing", nil, false, false, false},
		{"opted in", []string{v1alpha1.AnnotationMovable, "true"}, false, true, false},
		{"not", []string{v1alpha1.AnnotationMovable, "false", v1alpha1.AnnotationMove, move}, false, false, true},
		{"asked", []string{v1alpha1.AnnotationMovable, "true", v1alpha1.AnnotationMove, move}, false, true, true},
		{"with claims", []string{v1alpha1.AnnotationMovable, "true"}, true, false, false},
		{"static-burst", []string{v1alpha1.AnnotationMovable, "true", v1alpha1.AnnotationCPUPolicy, "static-burst"}, false, false, false},
		{"refused", []string{v1alpha1.AnnotationMove, `{"v":1,"from":"0-3","to":"4-7","refused":"no"}`}, false, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := pod(nil, on(test.annotations...), app)
			p.Claims = test.claims
			pin, problems := PinningOf(p)
			if len(problems) > 0 || !pin.Wanted || pin.UnknownText() != "" {
				t.Fatalf("%v, %q", problems, pin.UnknownText())
			}
			if pin.Change.Movable != test.movable || pin.Change.Move.Asked() != test.asked {
				t.Errorf("movable %v, asked %v", pin.Change.Movable, pin.Change.Move.Asked())
			}
			p.UID = UIDPrefix + "x"
			if pin, _ = PinningOf(p); pin.Change.Move != nil {
				t.Error("a workload of a host without Kubernetes is asked to move")
			}
		})
	}
	for _, wrong := range []string{"{", `{"v":2,"from":"0","to":"1"}`, `{"v":1,"from":"","to":"1"}`, `{"v":1,"from":"0","to":"x"}`} {
		pin, problems := PinningOf(pod(nil, on(v1alpha1.AnnotationMove, wrong), app))
		if len(problems) > 0 || !pin.Wanted || pin.Change.Move != nil || !strings.Contains(pin.UnknownText(), v1alpha1.AnnotationMove+"]: value ") {
			t.Errorf("%s: %v, %+v", wrong, problems, pin)
		}
	}
}
