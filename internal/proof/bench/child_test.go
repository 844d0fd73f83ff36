package bench_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/proof/bench"
)

// TestChildThatEnded: an ended child is detected before anything waits for it, and the error has its last output. Stop
// returns the same error.
func TestChildThatEnded(t *testing.T) {
	child, err := bench.StartChild("load nonsense", "load", "nonsense")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := child.FirstLine(t.Context()); !errors.Is(err, bench.ErrChild) {
		t.Errorf("first line %q, %v", line, err)
	}
	for deadline := time.Now().Add(10 * time.Second); child.Alive() == nil; {
		if time.Now().After(deadline) {
			t.Fatal("a child that ended counts as alive")
		}
		time.Sleep(time.Millisecond)
	}
	for what, err := range map[string]error{"alive": child.Alive(), "stop": child.Stop()} {
		if !errors.Is(err, bench.ErrChild) || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestChildInOrder: a child prints its address, stays alive, and ends without an error.
func TestChildInOrder(t *testing.T) {
	for name, end := range map[string]func(*bench.Child) error{"stop": (*bench.Child).Stop, "kill": (*bench.Child).Kill} {
		child, err := bench.StartChild("load serve", "load", "serve")
		if err != nil {
			t.Fatal(err)
		}
		if line, err := child.FirstLine(t.Context()); err != nil || line == "" {
			t.Errorf("%s: first line %q, %v", name, line, err)
		}
		if err := child.Alive(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for range 2 { // The second finds it ended.
			if err := end(child); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if child.Alive() == nil {
			t.Errorf("%s: it lives", name)
		}
	}
}
