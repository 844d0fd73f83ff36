package mems

import (
	"strings"
	"testing"
	"time"
)

// kept returns a report that satisfies every law.
func kept() *Report {
	wide := Change[string]{"0-1", "0-1"}
	return &Report{Cgroup: 2, Wrong: 1, Right: 0, Bytes: 1 << 30, Shared: 128 << 20, Arms: []Arm{
		{Kind: Rest},
		{
			Kind: Raw, Writes: []Write{{To: "0", Seconds: 30, Elsewhere: 1 << 30}}, Mems: Change[string]{"0-1", "0"}, CPUs: wide,
			Elsewhere: Change[int64]{1 << 30, 0}, Bystander: Change[int64]{128 << 20, 0}, Policy: Change[string]{"interleave:0-1", "interleave:0"},
		},
		{
			Kind: Agent, Mems: wide, CPUs: Change[string]{"0-7", "0"}, Why: "memory nodes stay 0-1",
			Elsewhere: Change[int64]{1 << 30, 1 << 30}, Bystander: Change[int64]{128 << 20, 128 << 20}, Policy: Change[string]{"interleave:0-1", "interleave:0-1"},
		},
		{
			Kind: Moving, Writes: []Write{{To: "0", Seconds: 0.01, Elsewhere: Slack}}, Mems: Change[string]{"0-1", "0"}, CPUs: Change[string]{"0-7", "0"},
			Elsewhere: Change[int64]{1 << 30, 0}, Policy: Change[string]{"default", "default"},
		},
	}}
}

// TestLaws checks that each law is violated by what it forbids and by a missing arm.
func TestLaws(t *testing.T) {
	t.Parallel()
	const raw, agent, moving = 1, 2, 3
	for name, c := range map[string]struct {
		spoil func(r *Report)
		want  string // part of each line; "" for no violation
	}{
		"kept": {func(*Report) {}, ""},
		"on v1 no page moves": {func(r *Report) {
			r.Cgroup, r.Arms[raw].Bystander.After, r.Arms[raw].Elsewhere.After = 1, 128<<20, 1<<30
		}, ""},
		"written early":         {func(r *Report) { r.Arms[moving].Writes[0].Elsewhere++ }, `"0" was written with 64 MiB elsewhere`},
		"pages of a bystander":  {func(r *Report) { r.Arms[agent].Bystander.After = 0 }, "agent: bystander: 134217728 before, 0 after"},
		"a policy":              {func(r *Report) { r.Arms[agent].Policy.After = "interleave:0" }, "agent: policy: interleave:0-1 before, interleave:0 after"},
		"narrowed":              {func(r *Report) { r.Arms[agent].Mems.After = "0" }, `agent: memory nodes "0-1" before, "0" after 0 writes`},
		"not pinned":            {func(r *Report) { r.Arms[agent].CPUs.After = "0-7" }, "agent: it was not pinned"},
		"no reason":             {func(r *Report) { r.Arms[agent].Why = "" }, "agent: nothing says what is in the way"},
		"never narrowed":        {func(r *Report) { r.Arms[moving].Mems.After, r.Arms[moving].Writes = "0-1", nil }, `memory nodes "0-1" after 0 writes`},
		"the write rebound not": {func(r *Report) { r.Arms[raw].Policy.After = "interleave:0-1" }, "raw write: the policy stayed"},
		"the write moved none":  {func(r *Report) { r.Arms[raw].Elsewhere.After = 1 << 30 }, "raw write: the pages of the group stayed"},
		"the bystander stayed":  {func(r *Report) { r.Arms[raw].Bystander.After = 128 << 20 }, "raw write: the bystander's pages stayed"},
		"an arm is missing":     {func(r *Report) { r.Arms = r.Arms[:moving] }, "it was not measured"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := kept()
			c.spoil(r)
			broken := strings.Join(r.Broken(), "\n")
			if want := c.want; !strings.Contains(broken, want) || (broken == "") != (want == "") {
				t.Errorf("broken: %q, want %q", broken, want)
			}
			var page strings.Builder
			if err := r.Print(&page); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(page.String(), "BROKEN") == (c.want == "") {
				t.Errorf("page:\n%s", page.String())
			}
		})
	}
}

// TestTimesOf checks that P99 of a few answers is the longest, and that one in a hundred may be longer.
func TestTimesOf(t *testing.T) {
	t.Parallel()
	var took []time.Duration
	for i := range 100 {
		took = append(took, time.Duration(100-i)*time.Millisecond)
	}
	if got, want := TimesOf(took, 1), (Times{Asked: 100, Failed: 1, P50: 50, P99: 99, Max: 100}); got != want {
		t.Errorf("of 100: %+v, want %+v", got, want)
	}
	if got, want := TimesOf(took[:2], 0), (Times{Asked: 2, P50: 99, P99: 100, Max: 100}); got != want {
		t.Errorf("of 2: %+v, want %+v", got, want)
	}
	if got := TimesOf(nil, 2); got != (Times{Failed: 2}) {
		t.Errorf("of none: %+v", got)
	}
}
