package statedir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/disk"
)

// TestAnswersAreWrittenAnew checks that answers are appended, and that the file is written again before it grows
// without bound. It then has one line for each valid answer. Answers of another boot are not recalled.
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
		t.Errorf("written again with %d lines, want %d", n, len(current))
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
	save("0", 9) // the later line is valid
	recalls("boot", current)
	recalls("another boot", map[string]inventory.Answered{})
}

// TestAnswerAfterAFullDisk checks that the next answer after a cut-off line writes the whole file again. An appended
// answer would join the cut-off line and be lost.
func TestAnswerAfterAFullDisk(t *testing.T) {
	dir := disk.Small(t)
	a := NewAnswers(dir, "boot")
	current := map[string]inventory.Answered{}
	save := func(id string) error {
		cpus := cpuset.Set{}.Add(len(current))
		current[id] = inventory.Answered{Pod: "pod", CPUs: []cpuset.Set{cpus}}
		return a.Save(nri.Event{Kind: nri.Create, Container: nri.Container{ID: id}}, nri.Reply{Adjust: nri.Settings{CPUs: cpus}},
			func(...string) map[string]inventory.Answered { return current })
	}
	if err := save("first"); err != nil {
		t.Fatal(err)
	}
	disk.Fill(t, dir)
	if err := save(strings.Repeat("long", 2000)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("on a full disk: %v", err)
	}
	if _, err := a.Recall(); err == nil {
		t.Error("no line was cut off: the test shows nothing")
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	if err := save("last"); err != nil {
		t.Fatal(err)
	}
	got, err := a.Recall()
	if diff := cmp.Diff(current, got, cmpopts.EquateComparable(cpuset.Set{})); err != nil || diff != "" {
		t.Errorf("%v, answers (-want +got):\n%s", err, diff)
	}
}

// TestDamagedAnswers checks that a cut-off line is reported, and that the other lines are still valid.
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
