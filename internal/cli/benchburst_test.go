package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/proof/bench"
)

// TestBurstAbusers: the benchmark runs the abusers that are named, and refuses names that it does not know.
func TestBurstAbusers(t *testing.T) {
	for _, c := range []struct {
		args    []string
		want    []string
		refused bool
	}{
		{nil, bench.AbuserNames(), false},
		{[]string{"--abusers", "strikes-random,always"}, []string{"strikes-random", "always"}, false},
		{[]string{"--no-abusers"}, nil, false},
		{[]string{"--abusers", "strikes,nobody"}, nil, true},
		{[]string{"--abusers", "strikes", "--cores-saved"}, nil, true},
		{[]string{"--abusers", "strikes", "--no-abusers"}, nil, true},
	} {
		f, cmd := &benchBurstFlags{}, newLoadHold()
		f.register(cmd)
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if err := f.checkGiven(cmd); (err != nil) != c.refused {
			t.Errorf("%q: %v", c.args, err)
		}
		o, err := f.resolve(bench.Place{}, bench.Machine{CPUs: 2})
		if err != nil {
			t.Fatal(err)
		}
		if !c.refused && !slices.Equal(o.Abuse.Abusers, c.want) {
			t.Errorf("%q: abusers %q, want %q", c.args, o.Abuse.Abusers, c.want)
		}
	}
}

// TestMeasureWithError: a report that comes with an error is printed, and the command still fails.
func TestMeasureWithError(t *testing.T) {
	table := func(w io.Writer, report *string) error {
		_, err := fmt.Fprintln(w, *report)
		return err
	}
	for name, c := range map[string]struct {
		report *string
		failed error
		want   string
	}{
		"no report": {nil, bench.ErrNotRaised, ""},
		"both":      {new("three of four"), bench.ErrNotSpent, "three of four\n"},
		"no error":  {new("four of four"), nil, "four of four\n"},
	} {
		var out bytes.Buffer
		cmd := newLoadHold()
		cmd.SetContext(t.Context())
		cmd.SetOut(&out)
		run := func(context.Context, int) (*string, error) { return c.report, c.failed }
		err := measure(cmd, "table", 1, run, table)
		if !errors.Is(err, c.failed) || err != nil && !strings.HasPrefix(err.Error(), "bench ") || out.String() != c.want {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}

// TestRepetitionsByNoise: the noise needs its two arms, and replaces a number of repetitions.
func TestRepetitionsByNoise(t *testing.T) {
	for _, c := range []struct {
		args    []string
		refused bool
	}{
		{[]string{"--reps-by-noise"}, false},
		{[]string{"--reps-by-noise", "--arms", "unlimited,berth,unlimited again"}, false},
		{[]string{"--reps-by-noise", "--arms", "unlimited,berth"}, true},
		{[]string{"--reps-by-noise", "--reps", "5"}, true},
		{[]string{"--reps-by-noise", "--cores-saved"}, true},
		{[]string{"--reps", "0"}, true},
	} {
		f, cmd := &benchBurstFlags{}, newLoadHold()
		f.register(cmd)
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if err := f.checkGiven(cmd); (err != nil) != c.refused {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}
