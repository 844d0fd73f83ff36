package cookies

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/driver/cookie"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// crowd is a host with threads in groups. Odd threads have the cookie.
type crowd struct {
	threads map[string][]int
	asked   []int // the examined threads, in order
	found   []string
	err     error
	at      string // the group of the error, "" for all
	blind   int    // a thread that cannot be examined, 0 for none
}

func (h *crowd) list(group string) ([]int, error) {
	if h.at != "" && group != h.at {
		return h.threads[group], nil
	}
	return h.threads[group], h.err
}

func (h *crowd) see(tids []int, into *cookie.Threads) error {
	h.asked = append(h.asked, tids...)
	for _, tid := range tids {
		if tid == h.blind {
			return h.err
		}
		if tid%2 == 1 {
			into.Have = append(into.Have, tid)
		} else {
			into.Lack = append(into.Lack, tid)
		}
	}
	return nil
}

func (h *crowd) seen(group string, now cookie.Threads) {
	h.found = append(h.found, fmt.Sprintf("%s %d %d", group, len(now.Have), len(now.Lack)))
}

// from returns n consecutive ids.
func from(first, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = first + i
	}
	return all
}

// TestSweepKeepsItsBudget checks that a step examines no more threads than its budget. A large group needs several
// steps, and none of its threads is examined twice.
func TestSweepKeepsItsBudget(t *testing.T) {
	t.Parallel()
	const most = 16
	h := &crowd{threads: map[string][]int{"a": from(1, 3), "large": from(100, 40), "b": from(200, 2)}}
	s := sweep{left: []string{"a", "large", "gone", "b"}}
	var steps []int
	for len(s.left) > 0 {
		before := len(h.asked)
		if _, err := s.step(most, h); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, len(h.asked)-before)
	}
	if diff := cmp.Diff([]int{15, 16, 14}, steps); diff != "" {
		t.Errorf("threads by step:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a 2 1", "large 20 20", "gone 0 0", "b 1 1"}, h.found); diff != "" {
		t.Error(diff)
	}
	if all := slices.Concat(from(1, 3), from(100, 40), from(200, 2)); !slices.Equal(h.asked, all) {
		t.Errorf("%v, want %v", h.asked, all)
	}
}

// TestSweepReturnsTheRest checks that the remaining budget is returned. A group costs one thread in addition to its
// own.
func TestSweepReturnsTheRest(t *testing.T) {
	t.Parallel()
	h := &crowd{threads: map[string][]int{"a": from(1, 3)}}
	s := sweep{left: []string{"a", "gone"}}
	if left, err := s.step(16, h); left != 11 || err != nil {
		t.Errorf("%d, %v, want 11", left, err)
	}
}

// TestSweepChargesWhatFails checks that a group whose threads cannot be listed, or not all examined, costs the budget
// what it used.
func TestSweepChargesWhatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		h    crowd
		left int
	}{
		"not listed":                {crowd{threads: map[string][]int{"a": from(1, 5)}, at: "a"}, 10},
		"not listed, and large":     {crowd{threads: map[string][]int{"a": from(1, 40)}, at: "a"}, -25},
		"a thread not looked at":    {crowd{threads: map[string][]int{"a": from(1, 5)}, at: "b", blind: 4}, 12},
		"the first one, of a large": {crowd{threads: map[string][]int{"a": from(1, 40)}, at: "b", blind: 1}, 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.h.err = errors.New("refused")
			s := sweep{left: []string{"a"}}
			if left, err := s.step(16, &c.h); left != c.left || err == nil {
				t.Errorf("%d of 16 are left, %v, want %d", left, err, c.left)
			}
		})
	}
}

// TestSweepTakesNewGroupsFirst checks that groups which appear during the steps of a large group are examined before it
// continues where it stopped. Groups that disappeared are not examined.
func TestSweepTakesNewGroupsFirst(t *testing.T) {
	t.Parallel()
	h := &crowd{threads: map[string][]int{"large": from(100, 40), "new": from(1, 2), "b": from(200, 2)}}
	s := sweep{left: []string{"large", "b"}}
	for n, groups := range [][]string{{"large", "b"}, {"large", "new"}, {"large", "new"}, {"large", "new"}} {
		if n == 1 {
			s.extend([]string{"large", "b"}, groups)
		}
		if _, err := s.step(16, h); err != nil {
			t.Fatal(err)
		}
	}
	if want := slices.Concat(from(100, 16), from(1, 2), from(116, 24)); !slices.Equal(h.asked, want) || len(s.left) > 0 {
		t.Errorf("%v, want %v; left %q", h.asked, want, s.left)
	}
	if diff := cmp.Diff([]string{"new 1 1", "large 20 20"}, h.found); diff != "" {
		t.Error(diff)
	}
}

// TestSweepForgetsWhoLeft checks that threads which left a large group before its last step do not count as lacking a
// cookie, because their ids may be reused.
func TestSweepForgetsWhoLeft(t *testing.T) {
	t.Parallel()
	h := &crowd{threads: map[string][]int{"large": from(100, 20)}}
	s := sweep{left: []string{"large"}}
	_, first := s.step(16, h)
	h.threads["large"] = from(104, 16)
	_, second := s.step(16, h)
	if diff := cmp.Diff([]string{"large 10 8"}, h.found); diff != "" || errors.Join(first, second) != nil {
		t.Error(diff, first, second)
	}
}

// TestSweepStopsAtAnError checks that an error leaves the group to the next step.
func TestSweepStopsAtAnError(t *testing.T) {
	t.Parallel()
	h := &crowd{threads: map[string][]int{"a": from(1, 2)}, err: errors.New("no threads")}
	s := sweep{left: []string{"a"}}
	if _, err := s.step(16, h); !errors.Is(err, h.err) || len(s.left) != 1 {
		t.Errorf("%v, left %q", err, s.left)
	}
	h.err = nil
	if _, err := s.step(16, h); err != nil || !slices.Equal(h.found, []string{"a 1 1"}) {
		t.Errorf("%v, %q", err, h.found)
	}
}

// TestStartsAreWithinABudget checks that a round asks for the start times of only a limited number of threads, over all
// groups. The other threads still count as lacking the cookie.
func TestStartsAreWithinABudget(t *testing.T) {
	t.Parallel()
	c := New(nil)
	asked := 0
	c.start = func(int) (uint64, error) {
		asked++
		return 1, nil
	}
	c.change([]string{"a", "b"})
	c.starts = starts
	c.joins.Round(0, func(string) bool { return true })
	for _, group := range c.groups {
		c.seen(group, cookie.Threads{Lack: from(1, 20_000)})
	}
	if s := c.joins.Lacking; asked != starts || s != 40_000 || len(c.lacking()) != 2 {
		t.Errorf("%d starts were asked, %d lack the cookie, groups %q; want %d, 40000, two", asked, s, c.lacking(), starts)
	}
}

// listed is a host on which every group has these threads.
type listed struct{ tids []int }

func (h listed) Group(string, ...cgroup.Controller) (*cgroup.Group, error) {
	return &cgroup.Group{}, nil
}

func (h listed) ThreadIDs(*cgroup.Group) (tids []int, foreign int, err error) { return h.tids, 0, nil }

// TestTooManyThreadsAreNotSwept checks a group with more threads than the driver gives a cookie to. It is listed, but
// none of its threads is examined. It is reported, and does not end the cookie of other groups.
func TestTooManyThreadsAreNotSwept(t *testing.T) {
	t.Parallel()
	c := New(listed{from(1<<30, cookie.Most+1)}) // no thread has such an id
	c.left = budget
	c.change([]string{"large"})
	c.sweep = sweep{left: []string{"large"}}
	if reason := c.look(&c); reason != "" || c.left > 0 {
		t.Errorf("%q, %d of the budget are left", reason, c.left)
	}
	if got, want := c.Problem(), "core scheduling: group large: more than 65536 threads: it has 65537"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if len(c.lacking()) > 0 || c.Isolates() {
		t.Errorf("%q lack it, isolates %t", c.lacking(), c.Isolates())
	}
}

// TestOneUnseenGroup checks that a group which cannot be examined is reported, and that the other groups keep their
// cookies.
func TestOneUnseenGroup(t *testing.T) {
	t.Parallel()
	c := New(nil)
	c.source = "agent.yaml"
	h := &crowd{threads: map[string][]int{"a": from(1, 2), "b": from(3, 2), "c": from(5, 2)}, err: errors.New("not permitted"), at: "b"}
	look := func() string {
		c.left, h.found = budget, nil
		c.change([]string{"a", "b", "c"})
		c.sweep = sweep{left: slices.Clone(c.groups)}
		return c.look(h)
	}
	if reason := look(); reason != "" || !slices.Equal(h.found, []string{"a 1 1", "c 1 1"}) {
		t.Errorf("%q, found %q", reason, h.found)
	}
	if got, want := c.Problem(), "core scheduling: group b: not permitted"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if h.at = ""; look() != "not permitted" {
		t.Error("none can be looked at, and the cookie is kept")
	}
}
