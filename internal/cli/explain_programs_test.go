package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/linux/program"
)

func TestProgramLines(t *testing.T) {
	server := program.Process{PID: 7, Name: "server", Runtime: program.Go, Version: "go1.26.1"}
	machine := program.Process{PID: 8, Name: "java", Runtime: program.Java}
	for name, c := range map[string]struct {
		found *program.Found
		want  []string
	}{
		"its quota does not move": {nil, nil},
		"none":                    {&program.Found{Answer: program.None, Looked: 3}, []string{"none follows the quota while it runs; processes: 3"}},
		"unknown": {&program.Found{Answer: program.Unknown, Looked: 1, Unseen: 2, Why: "no right"}, []string{
			"unknown whether any follows the quota: 2 not looked at: no right",
		}},
		"unknown of all": {&program.Found{Answer: program.Unknown, Why: "no time"}, []string{"unknown whether any follows the quota: no time"}},
		"two, and more": {&program.Found{Answer: program.Follow, Processes: []program.Process{server, machine}, Following: 5, Looked: 6, Unseen: 1, Why: "no right"}, []string{
			"server (pid 7, go1.26.1) changes GOMAXPROCS as the quota moves, unless GOMAXPROCS or GODEBUG is set for it",
			"java (pid 8, Java) counts the quota of the moment as its processors, unless -XX:ActiveProcessorCount is set for it",
			"3 more follow the quota",
			"1 not looked at: no right",
		}},
	} {
		if diff := cmp.Diff(c.want, programLines(c.found)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The processes of a recorded host are unknown. Explain does not look for the processes of a workload whose quota does
// not move.
func TestProgramsOfARecording(t *testing.T) {
	g := &globals{Root: t.TempDir()}
	if found := g.programs(t.Context(), explanation{views: []capability.WorkloadView{{}, {Moves: true}}}); found == nil || found.Answer != program.Unknown || found.Why != errNotRunning.Error() {
		t.Errorf("%+v", found)
	}
	if found := g.programs(t.Context(), explanation{views: []capability.WorkloadView{{}, {}}}); found != nil {
		t.Errorf("a quota that stays: %+v", found)
	}
}
