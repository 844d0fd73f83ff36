package cgroupfile

import (
	"testing"

	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/value/cpuset"
)

func set(list string) cpuset.Set {
	s, _ := cpuset.Parse(list)
	return s
}

// What a thread has after its group got other CPUs says which kernel this is, or leaves it
// open: a thread may have asked for more than its group had when it was noted.
func TestJudge(t *testing.T) {
	// The thread has CPUs 1-2 of a group with 0-3: it asked for these, or also for CPUs from 4 on.
	thread := journal.Thread{CPUs: "1-2", Without: "0,3"}
	for name, tt := range map[string]struct {
		has, group string
		want       threadState
		should     string
	}{
		"kept in fewer":                      {"1", "0-1", threadKept, "1"},
		"kept in more":                       {"1-2", "0-7", threadKept, "1-2"},
		"kept, and more of it shows":         {"1-2,4-5", "0-7", threadKept, "1-2"},
		"reset in fewer":                     {"0-1", "0-1", threadReset, "1"},
		"reset in more":                      {"0-7", "0-7", threadReset, "1-2"},
		"reset in others":                    {"2-5", "2-5", threadReset, "2"},
		"reset, or all of it shows":          {"1-2,4-5", "1-2,4-5", threadOpen, "1-2"},
		"reset, or all of it shows, in part": {"2,4", "2,4", threadOpen, "2"},
		"none is left":                       {"4-5", "4-5", threadUnclear, "4-5"},
		"all is its own":                     {"1", "1", threadUnclear, "1"},
		"asked for others meanwhile":         {"0", "0-1", threadUnclear, "1"},
		"asked for part of it meanwhile":     {"1", "0-3", threadUnclear, "1-2"},
	} {
		t.Run(name, func(t *testing.T) {
			got, should := judge(thread, set(tt.has), set(tt.group))
			if got != tt.want || should != set(tt.should) {
				t.Errorf("state %d, should have %s; want %d, %s", got, should, tt.want, tt.should)
			}
		})
	}
	if got, _ := judge(journal.Thread{CPUs: "1-2"}, set("0-7"), set("0-7")); got != threadOpen {
		t.Errorf("noted by an older agent, which did not note more: state %d", got)
	}
	if got, _ := judge(journal.Thread{CPUs: "none"}, set("0-7"), set("0-7")); got != threadUnclear {
		t.Errorf("noted wrongly: state %d", got)
	}
}
