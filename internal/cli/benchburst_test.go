package cli

import (
	"slices"
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
