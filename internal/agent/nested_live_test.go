package agent_test

import (
	"fmt"
	"testing"

	"github.com/berth-project/berth/internal/proof/scratch"
)

// On the real kernel the copy of a limit below a container's group follows the container's quota up and down, in the
// order that cgroup v1 requires.
func TestLiveNestedLimitFollows(t *testing.T) {
	s := newSite(t, "nested")
	below, err := scratch.New(s.host, s.group.Path(), scratch.Name("container"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = below.Close() })
	if err := below.SetMax(50000, 100000); err != nil {
		t.Fatal(err)
	}
	stands := func() string {
		g, err := s.host.Group(below.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		b, err := g.Bandwidth()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d/%d burst %d", b.Quota, b.Period, b.Burst)
	}
	s.workload(`{"policy":"auto"}`)
	stop := s.start()
	s.eventually("149998/100000 burst 50000")
	s.until(func() string {
		if got, want := stands(), s.bandwidth(); got != want {
			return fmt.Sprintf("below the group stands %s, the group has %s", got, want)
		}
		return ""
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := stands() + ", " + s.bandwidth(); got != "50000/100000 burst 0, 50000/100000 burst 0" {
		t.Errorf("after the end stand %s", got)
	}
}
