package cli

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/statedir"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestAnswersOf: a rollback reads the answers that an agent of this boot saved before it gave them, even if the last
// line is incomplete.
func TestAnswersOf(t *testing.T) {
	dir := t.TempDir()
	cpus, mems := cpuset.Set{}.Add(2).Add(3), cpuset.Set{}.Add(0)
	reply := nri.Reply{Adjust: nri.Settings{CPUs: cpus, Mems: mems, NoQuota: true}}
	event := nri.Event{Kind: nri.Create, Container: nri.Container{ID: "a"}}
	answered := func(...string) map[string]inventory.Answered {
		return map[string]inventory.Answered{"a": {Pod: "uid", CPUs: []cpuset.Set{cpus}, Mems: []cpuset.Set{mems}, NoQuota: true}}
	}
	if err := statedir.NewAnswers(dir, "boot").Save(event, reply, answered); err != nil {
		t.Fatal(err)
	}
	want := map[string]systemd.Answered{"a": {Pod: "uid", CPUs: []cpuset.Set{cpus}, Mems: []cpuset.Set{mems}, NoQuota: true}}
	if got, err := answersOf(dir, "boot"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := answersOf(dir, "another boot"); err != nil || len(got) > 0 {
		t.Errorf("of another boot: %+v, %v", got, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "answers"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"bootID":"boot","cont`); err != nil || file.Close() != nil {
		t.Fatal(err)
	}
	if got, err := answersOf(dir, "boot"); err == nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with half a line: %+v, %v", got, err)
	}
}

// TestRollbackOfAnswers: the output names the values that systemd had on record, and a quota that is lost.
func TestRollbackOfAnswers(t *testing.T) {
	const group = "kubepods.slice/cri-containerd-a.scope"
	entry := journal.Entry{Target: cgroupfile.Target(group, cgroup.KnobCPUs), Original: plan.Value(cgroup.Inherit), Workload: "uid"}
	before := undone{lines: []restored{{Group: "db"}}, notes: []string{"torn"}}
	u := before.withAnswers(systemd.TakenBack{Restored: []apply.Restored{{Entry: entry, Outcome: apply.OutcomeAlready, Found: "0-3"}}, Lost: []string{group}})
	if len(u.lines) != 2 || u.lines[1].Group != group || u.lines[1].Outcome != "already" || u.failed != nil {
		t.Errorf("%+v", u)
	}
	if len(u.notes) != 3 || !strings.Contains(u.notes[1], "would have written again: 1") || !strings.HasPrefix(u.notes[2], group+" has no quota") {
		t.Errorf("%q", u.notes)
	}
	for name, taken := range map[string]systemd.TakenBack{
		"systemd is away":        {Err: cgroupfile.ErrNoUnits},
		"the write was refused":  {Restored: []apply.Restored{{Entry: entry, Outcome: apply.OutcomeFailed, Err: cgroupfile.ErrNoUnits}}},
		"another value is there": {Restored: []apply.Restored{{Entry: entry, Outcome: apply.OutcomeDrifted, Found: "1", Err: nil}}},
	} {
		want := cgroupfile.ErrNoUnits
		if name == "another value is there" {
			want = ErrDiffers
		}
		if u := before.withAnswers(taken); !errors.Is(u.failed, want) {
			t.Errorf("%s: %v, want %v", name, u.failed, want)
		}
	}
	if u := before.withAnswers(systemd.TakenBack{}); len(u.lines) != 1 || len(u.notes) != 1 || u.failed != nil {
		t.Errorf("with nothing: %+v", u)
	}
}
