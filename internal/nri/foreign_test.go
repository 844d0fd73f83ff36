package nri

import (
	"testing"

	"github.com/berth-project/berth/internal/cpuset"
)

// A container that is being made may be changed by the answer about another one: that
// is nobody else's doing.
func TestOverruledKnowsLaterAnswers(t *testing.T) {
	set := func(text string) cpuset.Set {
		s, err := cpuset.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name, got string
		foreign   bool
	}{{"as answered", "0-3", false}, {"as changed since", "0-1", false}, {"by somebody else", "2", true}} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(new(Plugin), t.Context(), nil)
			s.asked["x"] = []Settings{{CPUs: set("0-3"), Mems: set("0")}}
			s.updates(Reply{Updates: []Change{{ContainerID: "x", Settings: Settings{CPUs: set("0-1")}}, {ContainerID: "y", Settings: Settings{CPUs: set("2")}}}})
			made := Container{ID: "x", Resources: Resources{CPUs: set(c.got), Mems: set("0")}}
			if _, foreign := s.overruled(Event{Kind: PostCreate, Container: made}); foreign != c.foreign {
				t.Errorf("foreign %t, want %t", foreign, c.foreign)
			}
			if len(s.asked) != 0 {
				t.Errorf("still asked: %v", s.asked)
			}
		})
	}
}
