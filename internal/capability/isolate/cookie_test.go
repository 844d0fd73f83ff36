package isolate

import (
	"strings"
	"testing"
	"time"
)

// TestSharing checks which groups get no cookie, and the reason.
func TestSharing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		sharing  Sharing
		reason   string
		needless bool
	}{
		{"a kernel with it", Sharing{}, "", false},
		{"no siblings", Sharing{Missing: "no SMT"}, "no core scheduling: no SMT", false},
		{"Group Identity", Sharing{Identity: true}, "lock up", false},
		{"Group Identity, though there are cores", Sharing{Identity: true, Cores: true}, "lock up", false},
		{"cores", Sharing{Cores: true}, "cores of its own", true},
		{"koordlet", Sharing{Koordlet: "ns/koordlet", Missing: "no SMT"}, "left to koordlet (pod ns/koordlet)", false},
	} {
		reason, needless := test.sharing.Refused()
		if (reason == "") != (test.reason == "") || !strings.Contains(reason, test.reason) || needless != test.needless {
			t.Errorf("%s: %q, %v", test.name, reason, needless)
		}
	}
}

// TestJoins checks the gap of a thread: it begins at the latest time at which the thread can have joined the group, and
// ends at the sample that no longer finds it.
func TestJoins(t *testing.T) {
	t.Parallel()
	var j Joins
	const s = time.Second
	all := func(string) bool { return true }
	old, fresh, other := Joiner{7, 3 * s}, Joiner{8, 101 * s}, Joiner{9, 102*s + s/2}
	for _, step := range []struct {
		what    string
		at      time.Duration
		group   string
		threads []Joiner
		lacking int
		longest time.Duration
	}{
		{"what ran before does not count", 100 * s, "a", []Joiner{old}, 1, 0},
		{"until it has the cookie", 100*s + s/100, "a", nil, 0, s / 100},
		{"a new one counts from its start", 102 * s, "a", []Joiner{fresh}, 1, s},
		{"of a new group as well", 103 * s, "b", []Joiner{other}, 2, s},
		{"it lasts", 104 * s, "b", []Joiner{other}, 2, 3 * s / 2},
		{"an old process that joins", 106 * s, "b", []Joiner{old}, 2, 7 * s / 2},
		{"the same id of another thread", 107 * s, "b", []Joiner{{7, 107 * s}}, 2, 7 * s / 2},
		{"done", 108 * s, "b", nil, 1, 7 * s / 2},
		{"an old process of a group that was none of offline work", 109 * s, "c", []Joiner{old}, 2, 7 * s / 2},
		{"for as long as it has none", 113 * s, "c", nil, 1, 5 * s},
	} {
		j.Round(step.at, all)
		j.See(step.at, step.group, step.threads)
		if j.Lacking != step.lacking || j.Longest != step.longest {
			t.Errorf("%s: %d without, longest %s, want %d, %s", step.what, j.Lacking, j.Longest, step.lacking, step.longest)
		}
	}
	if j.Round(114*s, func(group string) bool { return group == "b" }); j.Lacking != 0 {
		t.Errorf("%d without after the group went", j.Lacking)
	}
}

// TestJoinsWithoutStart checks that a thread whose start time is missing in one sample is the same thread in the next,
// so its gap continues.
func TestJoinsWithoutStart(t *testing.T) {
	t.Parallel()
	var j Joins
	const s = time.Second
	j.Round(100*s, func(string) bool { return true })
	for _, step := range []struct {
		at, start, longest time.Duration
	}{{100 * s, 3 * s, 0}, {101 * s, 0, s}, {102 * s, 3 * s, 2 * s}, {103 * s, 103 * s, 3 * s}, {105 * s, 0, 3 * s}} {
		j.See(step.at, "a", []Joiner{{7, step.start}})
		if j.Lacking != 1 || j.Longest != step.longest {
			t.Errorf("at %s: %d without, longest %s, want 1, %s", step.at, j.Lacking, j.Longest, step.longest)
		}
	}
}
