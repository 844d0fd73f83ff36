package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/driver/hostfile"
	"github.com/berth-project/berth/internal/driver/thread"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// TestByHand: an undo that another writer stopped is exit code 4, and the message says what to do by
// hand: to write a file, or to give threads what they had.
func TestByHand(t *testing.T) {
	for says, r := range map[string]apply.Restored{
		`is "7", which Berth did not write; its original is "1"`: {
			Entry: journal.Entry{Target: plan.Target{Driver: hostfile.Driver, Object: "/proc/sys/vm", Knob: "stat_interval"}, Original: "1"}, Found: "7",
		},
		"thread 12 has batch, had other: another program gave it that; give each what it had (chrt)": {
			Entry: journal.Entry{Target: thread.PolicyTarget("system.slice/db.service", "fifo:40"), Original: thread.None}, Found: "thread 12 has batch, had other",
		},
	} {
		r.Outcome = apply.OutcomeDrifted
		if err := outcome([]apply.Restored{r}); exitCode(err) != exitDiffers || !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), says) {
			t.Errorf("exit code %d: %v; want %q", exitCode(err), err, says)
		}
	}
	refused := apply.Restored{Outcome: apply.OutcomeFailed, Err: apply.ErrChanged} // threads, some of which were put back
	if err := outcome([]apply.Restored{refused}); exitCode(err) != exitDiffers {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}
