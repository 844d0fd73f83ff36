package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/bench"
)

// TestBenchFlags refuses what cannot be measured, and knows what --quick means.
func TestBenchFlags(t *testing.T) {
	for _, args := range []string{"--reps=0", "--duration=-1s", "--limit=0", "--rate=0", "--no-such-flag", "word"} {
		if _, err := parseBench(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
	b, err := parseBench([]string{"--quick", "--out", "x"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o := b.options; o.Repetitions != 3 || o.Duration != 6*time.Second || o.Out != "x" || o.Retries != 0 {
		t.Errorf("--quick: %+v", o)
	}
}

// TestBusyNote says that the machine had no CPU to spare only if a quota stood below its ceiling.
func TestBusyNote(t *testing.T) {
	b, err := parseBench(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	b.pods = []podOutcome{{Arm: bench.QuotaOnly, LowestQuota: 0.5}, {Arm: bench.Berth, LowestQuota: 1.5, NodeUse: 0.4}}
	if said := strings.Join(b.notes(), "\n"); strings.Contains(said, "too busy") {
		t.Error(said)
	}
	b.pods = append(b.pods, podOutcome{Arm: bench.Berth, LowestQuota: 0.8, NodeUse: 0.8})
	if said := strings.Join(b.notes(), "\n"); !strings.Contains(said, "too busy for bursting in 1 of 2 arms") || !strings.Contains(said, "60 %") {
		t.Error(said)
	}
}
