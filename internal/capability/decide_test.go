package capability_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/plan"
)

// A capability keeps its list from decision to decision: another one's settings do not get into it.
func TestDecisionAdd(t *testing.T) {
	t.Parallel()
	of := func(group string) plan.Desired {
		return plan.Desired{Setting: plan.Setting{Target: plan.Target{Object: group}}}
	}
	own := append(make([]plan.Desired, 0, 4), of("a"))
	var all capability.Decision
	all.Add(capability.Decision{})
	all.Add(capability.Decision{Settings: own, Events: []capability.Event{{Text: "one"}}})
	all.Add(capability.Decision{Settings: []plan.Desired{of("b")}, Held: true})
	all.Add(capability.Decision{Events: []capability.Event{{Text: "two"}}})
	want := capability.Decision{
		Settings: []plan.Desired{of("a"), of("b")}, Events: []capability.Event{{Text: "one"}, {Text: "two"}}, Held: true,
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(make([]plan.Desired, 3), own[1:4]); diff != "" {
		t.Errorf("behind the list of the first (-want +got):\n%s", diff)
	}
}
