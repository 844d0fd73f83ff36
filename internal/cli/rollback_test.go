package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/hostfile"
	"github.com/berth-project/berth/internal/engine/driver/thread"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// TestWidened: for a group beside pinned groups, a line shows its present value and its original. A write that the
// kernel refused makes the rollback fail.
func TestWidened(t *testing.T) {
	target := func(group string) plan.Target { return cgroupfile.Target(group, cgroup.KnobCPUs) }
	entries := []journal.Entry{
		{Target: target("web"), Original: plan.Value(cgroup.Inherit), Owner: plan.OwnerPool},
		{Target: target("batch"), Original: "0-5", Owner: plan.OwnerIsolate},
	}
	change := func(group string, from, to plan.Value) plan.Change {
		return plan.Change{From: from, Setting: plan.Setting{Target: target(group), Value: to, Owner: plan.OwnerPool, Workload: "shop"}}
	}
	lines, failed := widened(entries, []apply.Result{
		{Change: change("batch", "4-7", "2-5"), Wrote: true}, {Change: change("web", "2-3", "2-7"), Err: apply.ErrRefused},
	})
	if exitCode(failed) != exitFailed || !errors.Is(failed, apply.ErrRefused) {
		t.Errorf("exit code %d: %v", exitCode(failed), failed)
	}
	var out strings.Builder
	if err := printRestored(&out, lines, false); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"GROUP KNOB FOUND ORIGINAL OUTCOME OWNER WORKLOAD", "batch cpuset.cpus 4-7 0-5 widened to 2-5 isolate shop", "web cpuset.cpus 2-3 inherit failed pool shop",
	} {
		if line := strings.Join(strings.Fields(got[i]), " "); line != want {
			t.Errorf("line %d: %q, want %q", i, line, want)
		}
	}
}

// A value that was first restored in part and then as a whole is a success. A value that stays in part is not, and a
// note names it.
func TestRollbackInPart(t *testing.T) {
	part := restored{Group: "user.slice", Knob: "cpuset.cpus", Original: "0-15", Outcome: string(apply.OutcomePartly)}
	back := part
	back.Outcome = string(apply.OutcomeRestored)
	for part, want := range map[bool]string{false: "would restore", true: "would restore in part"} {
		if got := lineUp([]apply.Restored{{Outcome: apply.OutcomeRestored, Part: part}}, true)[0].Outcome; got != want {
			t.Errorf("dry run: %q, want %q", got, want)
		}
	}
	other := restored{Group: "db", Knob: "cpuset.cpus", Outcome: string(apply.OutcomeRestored)}
	if u := (undone{lines: []restored{part, other}}).followed(undone{lines: []restored{back}}).parted(); u.failed != nil || len(u.notes) != 0 || u.lines[0] != back || u.lines[1] != other {
		t.Errorf("whole at the end: %+v", u)
	}
	u := (undone{lines: []restored{part, other}}).followed(undone{lines: []restored{part}}).parted()
	if exitCode(u.failed) != exitDiffers || len(u.notes) != 1 || !strings.Contains(u.notes[0], "cpuset.cpus of user.slice stays without") {
		t.Errorf("in part at the end: %+v", u)
	}
}

// A rollback whose profile stays on record is not a success, even if every value is restored.
func TestRollbackThatLeavesTheRecord(t *testing.T) {
	left := tuner.Applied{}
	left.Profile.Name = "database"
	if err := whole(left, true, nil); exitCode(err) != exitDiffers || !strings.Contains(err.Error(), "database stays on record") {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
	if err := whole(tuner.Applied{}, false, nil); err != nil {
		t.Errorf("without a record: %v", err)
	}
	if err := whole(left, true, apply.ErrRefused); !errors.Is(err, apply.ErrRefused) {
		t.Errorf("with a failure: %v", err)
	}
}

// TestByHand: an undo that another writer stopped has exit code 4. The message says what a user has to do: write a
// file, or give threads their former policy.
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
