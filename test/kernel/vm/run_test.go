package main

import (
	"slices"
	"testing"
)

// TestParseRun checks the machine of each set of flags, and that the flags of berth stay its own.
func TestParseRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args    []string
		cpus    int
		nodes   int
		counted bool
		argv    []string
	}{
		"no flags":          {[]string{"version"}, 8, 2, false, []string{"version"}},
		"a wide machine":    {[]string{"-cpus", "16", "version"}, 16, 1, false, []string{"version"}},
		"counted":           {[]string{"-counted", "-cpus", "2", "bench", "burst", "--quick"}, 2, 1, true, []string{"bench", "burst", "--quick"}},
		"counted, by nodes": {[]string{"-counted", "topology"}, 8, 2, true, []string{"topology"}},
		"flags of berth":    {[]string{"bench", "-cpus", "4", "-counted"}, 8, 2, false, []string{"bench", "-cpus", "4", "-counted"}},
		"nothing":           {nil, 8, 2, false, nil},
	} {
		vm, argv, err := parseRun(c.args)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m := vm.Machine; m.CPUs() != c.cpus || m.Nodes != c.nodes || m.Counted != c.counted || !slices.Equal(argv, c.argv) {
			t.Errorf("%s: %d CPUs, %d nodes, counted %v, berth %q", name, m.CPUs(), m.Nodes, m.Counted, argv)
		}
		if vm.Quiet < longRun || vm.Layout != "v2" {
			t.Errorf("%s: ends after %v without output, layout %q", name, vm.Quiet, vm.Layout)
		}
		if skewed := slices.Contains(vm.Arguments, "skew_tick=1"); skewed != c.counted {
			t.Errorf("%s: arguments %q", name, vm.Arguments)
		}
	}
	for _, args := range [][]string{{"-cpus", "65", "version"}, {"-cpus", "-1", "version"}, {"-cpus", "many"}, {"-unknown"}} {
		if _, _, err := parseRun(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
