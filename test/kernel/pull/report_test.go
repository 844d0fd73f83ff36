package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// measured returns a report with the given numbers of pulls and stacks.
func measured(pullsAlone, pullsIdle, byNewIdle, byTick, own int) *Report {
	r := &Report{Kernel: "6.12.117", HZ: 250, CPUs: 2, Reserve: 10}
	a, i := r.arm(alone), r.arm(idle)
	a.Seconds, i.Seconds = 12, 12
	a.Waits, i.Waits = 3000, 5000
	a.Time[Busy], a.Time[OnIdle] = 1134, 165
	i.Time[BesideHogs], i.Time[BehindHog] = 1769, 199
	a.Moved[NewIdle], i.Moved[NewIdle], i.Moved[Tick] = pullsAlone, pullsIdle, byTick
	i.Ended = map[Mover]int{NewIdle: byNewIdle, Tick: byTick, OwnCPU: own}
	for n := range byNewIdle + byTick + own {
		i.stacks = append(i.stacks, time.Duration(500+n)*time.Microsecond)
	}
	r.close()
	return r
}

// TestJudge checks the verdict at each bound of the rule, and beyond it.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report *Report
		want   Verdict
	}{
		"as seen":                         {measured(1063, 16, 0, 9, 1210), Confirmed},
		"at the bounds":                   {measured(1000, 100, 5, 0, 95), Confirmed},
		"too many pulls":                  {measured(1000, 101, 5, 0, 95), NotResolvable},
		"too many stacks end so":          {measured(1000, 100, 6, 0, 94), NotResolvable},
		"pulled as alone":                 {measured(1000, 500, 5, 0, 95), Refuted},
		"pulled as alone, without stacks": {measured(1000, 900, 0, 0, 0), Refuted},
		"not quite as alone":              {measured(1000, 499, 5, 0, 95), NotResolvable},
		"half of the stacks":              {measured(1000, 50, 50, 0, 50), Refuted},
		"half of a few stacks":            {measured(1000, 10, 10, 0, 10), NotResolvable},
		"ticks count for the claim":       {measured(1000, 0, 0, 100, 0), Confirmed},
		"few stacks":                      {measured(1000, 0, 0, 0, 29), NotResolvable},
		"enough":                          {measured(30, 0, 0, 0, 30), Confirmed},
		"few pulls alone":                 {measured(29, 29, 50, 0, 0), NotResolvable},
		"nothing":                         {measured(0, 0, 0, 0, 0), NotResolvable},
	} {
		if c.report.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %s", name, c.report.Verdict, c.want, c.report.Why)
		}
	}
	r := &Report{}
	r.close()
	if r.Verdict != NotResolvable {
		t.Errorf("without arms: %s", r.Verdict)
	}
}

var update = flag.Bool("update", false, "write golden files")

// TestPrint compares the table and the JSON with testdata.
func TestPrint(t *testing.T) {
	t.Parallel()
	r := measured(1063, 16, 0, 9, 1210)
	var page strings.Builder
	if err := r.Print(&page); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"table.txt": page.String(), "report.json": string(text) + "\n"} {
		name = filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
		}
	}
}
