package statedir

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/nri"
)

// Answers are appended, and the file is written anew before it grows without end: it then
// has a line for each answer that counts. Those of another boot count no more.
func TestAnswersAreWrittenAnew(t *testing.T) {
	dir := t.TempDir()
	a := NewAnswers(dir, "boot")
	current := map[string]inventory.Answered{}
	save := func(id string, cpu int) {
		t.Helper()
		cpus := cpuset.Set{}.Add(cpu)
		current[id] = inventory.Answered{Pod: "pod-" + id, CPUs: []cpuset.Set{cpus}}
		e := nri.Event{Kind: nri.Create, Container: nri.Container{ID: id}}
		if err := a.Save(e, nri.Reply{Adjust: nri.Settings{CPUs: cpus}}, func(...string) map[string]inventory.Answered { return current }); err != nil {
			t.Fatal(err)
		}
	}
	lines := func() int {
		t.Helper()
		data, err := os.ReadFile(a.path())
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(data, []byte("\n"))
	}
	for i := range mostAppended {
		save(fmt.Sprint(i%2), i%8)
	}
	if n := lines(); n != mostAppended {
		t.Errorf("%d lines after %d answers", n, mostAppended)
	}
	save("2", 1)
	if n := lines(); n != len(current) {
		t.Errorf("written anew with %d lines, want %d", n, len(current))
	}
	recalls := func(boot string, want map[string]inventory.Answered) {
		t.Helper()
		got, err := NewAnswers(dir, boot).Recall()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(cpuset.Set{})); diff != "" {
			t.Errorf("%s: answers (-want +got):\n%s", boot, diff)
		}
	}
	recalls("boot", current)
	save("0", 9) // the later line counts
	recalls("boot", current)
	recalls("another boot", map[string]inventory.Answered{})
}

// A line that was cut off is reported, and the others count.
func TestDamagedAnswers(t *testing.T) {
	dir := t.TempDir()
	lines := `{"bootID":"boot","container":"a","pod":"p","cpus":["0-3"]}` + "\n" + `{"bootID":"bo`
	a := NewAnswers(dir, "boot")
	if err := os.WriteFile(a.path(), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := a.Recall()
	if err == nil || len(got) != 1 || got["a"].Pod != "p" {
		t.Errorf("answers %v, error %v", got, err)
	}
}
