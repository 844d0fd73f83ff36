package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// spin is a shell that computes for a while.
const spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"

// TestWorkOfOrphansCounts has a process leave the stage and compute there: what a cluster's
// servers and detached machines do.
func TestWorkOfOrphansCounts(t *testing.T) {
	done := filepath.Join(t.TempDir(), "done")
	_, idle, err := command([]string{"sh", "-c", "true"})
	if err != nil {
		t.Fatal(err)
	}
	code, cpu, err := command([]string{"sh", "-c", "setsid sh -c '" + spin + "; : > " + done + "' & while [ ! -e " + done + " ]; do sleep 0.02; done; sleep 0.2; exit 3"})
	if err != nil || code != 3 {
		t.Fatalf("code %d, %v, want 3", code, err)
	}
	if cpu < idle+20*time.Millisecond {
		t.Errorf("the orphan's work does not count: %v, %v without", cpu, idle)
	}
}

func TestStageOverBudgetFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stages")
	for _, args := range [][]string{{"cheap", "60", "true"}, {"dear", "0", "sh", "-c", spin}} {
		if code, err := run(append([]string{file}, args...)); err != nil || code != 0 {
			t.Fatalf("stage %v: code %d, %v", args, code, err)
		}
	}
	err := table(file)
	if !errors.Is(err, errOver) || !strings.Contains(err.Error(), "dear") || strings.Contains(err.Error(), "cheap") {
		t.Errorf("table() = %v, want %v of dear only", err, errOver)
	}
	if code, err := run([]string{file, "broken", "60", "sh", "-c", "exit 7"}); err != nil || code != 7 {
		t.Errorf("a failing stage: code %d, %v, want 7", code, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") != 3 {
		t.Errorf("file %q, %v", text, err)
	}
}

func Example_again() {
	dir, err := os.MkdirTemp("", "again")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"1": "", "2": "example.com/rooms.TestKey: 2 runs, 1 failures\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(again(dir))
	// Output:
	// unsteady: example.com/rooms.TestKey: 2 runs, 1 failures
	// <nil>
}
