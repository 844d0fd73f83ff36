package alloc_test

import (
	"fmt"
	"testing"

	"github.com/berth-project/berth/internal/capability/place/alloc"
)

// TestBudget fragments machines with many domains or threads thread by thread, so that no two domains are alike. It
// checks which machines are still solved exactly, and that no decision exceeds its budget by much.
func TestBudget(t *testing.T) {
	for _, test := range []struct {
		shape shape
		exact bool
	}{
		{shape: large, exact: true},
		{shape: shape{4, 2, 1, 15, 8}, exact: true},
		{shape: shape{2, 2, 1, 16, 4}, exact: true},
		{shape: shape{2, 1, 6, 2, 4}, exact: true},
		{shape: shape{2, 1, 10, 2, 4}},
		{shape: shape{4, 2, 8, 2, 4}},
		{shape: shape{1, 1, 128, 4, 2}},
		{shape: shape{8, 8, 2, 8, 1}},
		{shape: shape{2, 1, 256, 1, 2}},
	} {
		t.Run(fmt.Sprint(test.shape), func(t *testing.T) {
			m := compile(t, test.shape.topology())
			var scratch alloc.Scratch
			early := 0
			for seed := range 8 {
				s := state{machine: m}
				m.Hold(&s.taken, alloc.Holding{CPUs: drawSubset(newDice(uint64(seed)), m.Pinnable(), 2)})
				free := m.Pinnable().Difference(s.taken.CPUs()).Size()
				for _, n := range []int{free / 8, free / 4, free / 3, free / 2, free * 2 / 3} {
					s.request = &alloc.Request{Wants: wants(n, 1)}
					a, no := m.Allocate(&scratch, &s.taken, s.request)
					if no.Code != alloc.Placed {
						t.Fatal(no)
					}
					checkAnswer(t, s, &a)
					if !a.Exact {
						early++
					}
					if over := alloc.Overspent(&scratch); over > 1 || over == 0 && !a.Exact {
						t.Errorf("%d CPUs: %.2f budgets too much, exact %t", n, over, a.Exact)
					}
				}
			}
			if test.exact && early > 0 {
				t.Errorf("ended early %d times", early)
			}
			t.Logf("ended early %d of 40 times", early)
		})
	}
}
