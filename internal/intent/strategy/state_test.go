package strategy_test

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/intent/strategy"
)

// TestState checks that the host is restored while berth-config says so. An unreadable value changes nothing, and
// neither does the deletion of the ConfigMap, which an uninstall deletes before the agents.
func TestState(t *testing.T) {
	says := func(state string) strategy.Maps {
		return strategy.Maps{strategy.BerthConfig: {strategy.KeyState: state}}
	}
	bare := strategy.Maps{strategy.BerthConfig: nil}
	peer := strategy.Maps{strategy.BerthConfig: nil, strategy.ACKConfig: {strategy.KeyState: strategy.StateRestore}}
	s, _ := strategy.Parse(nil, facts(), nil)
	for i, step := range []struct {
		maps    strategy.Maps
		restore bool
		problem string
	}{
		{nil, false, ""},
		{says("Restore"), false, `ConfigMap berth-system/berth-config: key state: value "Restore": allowed: restore; in force: nothing, there is no earlier value`},
		{peer, false, ""},
		{says("restore"), true, ""},
		{says(""), true, `key state: value "": allowed: restore; in force: the last good value, of ConfigMap berth-system/berth-config`},
		{nil, true, ""},
		{bare, false, ""},
		{nil, false, ""},
	} {
		next, problems := strategy.Parse(step.maps, facts(), s)
		if s = next; s.Restores() != step.restore {
			t.Errorf("step %d: %t", i, s.Restores())
		}
		if len(problems) > 1 || (len(problems) == 1) != (step.problem != "") || len(problems) == 1 && !strings.Contains(problems[0].Error(), step.problem) {
			t.Errorf("step %d: problems %v, want %q", i, problems, step.problem)
		}
	}
}
