package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// spin is a shell loop that computes for a while.
const spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"

// TestWorkOfOrphansCounts starts a process that leaves the stage and computes there, as a cluster's servers and
// detached machines do. Its CPU time must count.
func TestWorkOfOrphansCounts(t *testing.T) {
	done := filepath.Join(t.TempDir(), "done")
	_, idle, err := command([]string{"sh", "-c", "true"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	code, cpu, err := command([]string{"sh", "-c", "setsid sh -c '" + spin + "; : > " + done + "' & while [ ! -e " + done + " ]; do sleep 0.02; done; sleep 0.2; exit 3"}, io.Discard)
	if err != nil || code != 3 {
		t.Fatalf("code %d, %v, want 3", code, err)
	}
	if cpu < idle+20*time.Millisecond {
		t.Errorf("the orphan's work does not count: %v, %v without", cpu, idle)
	}
}

// TestOrphanHoldsNobodyUp leaves a process that keeps the output open. The stage must not wait for it.
func TestOrphanHoldsNobodyUp(t *testing.T) {
	var out bytes.Buffer
	code, _, err := command([]string{"sh", "-c", "echo begun; setsid sleep 60 & echo $!"}, &out)
	if err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	said, pid, _ := strings.Cut(out.String(), "\n")
	if said != "begun" {
		t.Errorf("it said %q", out.String())
	}
	if _, _, err := command([]string{"kill", strings.TrimSpace(pid)}, io.Discard); err != nil {
		t.Error(err)
	}
}

// gotest is the end of gotestsum's output, with the output of a `go test` in one of its tests.
const gotest = `--- FAIL: TestCluster (9.10s)
    live_test.go:72: log
    --- FAIL: TestCluster/node (7.40s)
        --- FAIL: TestNode (7.00s)
            --- FAIL: TestNode/Change (1.00s)
                change_test.go:12: the mask is 0-1, want 1
                change_test.go:13: more
FAIL
FAIL	example.com/rooms/test/cluster/local	9.20s

=== Failed
=== FAIL: test/cluster/local TestCluster/node (7.40s)
    live_test.go:118: exit status 1
`

func TestFailuresNameEachTest(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nested", gotest, []string{"TestCluster/node: live_test.go:118: exit status 1", "TestNode/Change: change_test.go:12: the mask is 0-1, want 1"}},
		{"panic", "--- FAIL: TestA (0.00s)\npanic: nil map\n", []string{"TestA: panic: nil map"}},
		{"no test", "compiling\n\nmake: *** [fetch] Error 1\n", []string{"compiling", "make: *** [fetch] Error 1"}},
		{
			"compiler and linter",
			"lint a\na/x.go:1:2: undefined: y\n1 issues:\nlint b\nb/y.go:60:1: File is not properly formatted (gci)\nfunc y() {\n^\nlint c\n0 issues.\nlint d\n0 issues.\nlint e\n0 issues.\nmake: *** [lint] Error 1\n",
			[]string{"a/x.go:1:2: undefined: y", "b/y.go:60:1: File is not properly formatted (gci)"},
		},
		{"silence", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, failures(c.text), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReport runs stages that pass, fail, break a law or are unsteady, and checks the report.
func TestReport(t *testing.T) {
	const fails = "echo '--- FAIL: TestA (0.00s)'; echo '    a_test.go:3: it is 1'; exit 7"
	for _, c := range []struct {
		name   string
		stages map[string]string
		again  string
		red    string   // Part of the error, "" for none.
		says   []string // In the output.
	}{
		{"green", map[string]string{"unit": "true"}, "", "", []string{"unit", "ok"}},
		{"much work is no failure", map[string]string{"unit": spin}, "", "", []string{"ok"}},
		{"red", map[string]string{"unit": fails, "vm": "true"}, "", "red: unit", []string{"unit: TestA: a_test.go:3: it is 1"}},
		{"law", map[string]string{"node": "echo 'x_test.go:1: broken law: CPU 1 is shared'"}, "", "red: node", []string{"node: broken law: CPU 1 is shared"}},
		{"unsteady", map[string]string{"node": "true"}, "p.TestB: 2 runs, 1 failures\np.TestC: 2 runs, 2 failures\n", "", []string{"unsteady: p.TestB\n"}},
		{
			"one test of many parts",
			map[string]string{"vm": "true"},
			"a.b/k.TestVM: 2 runs, 1 failures\na.b/k.TestVM/6.1: 2 runs, 1 failures\na.b/k.TestVM/6.1/x: 2 runs, 1 failures\na.b/k.TestVM/6.1/y: 2 runs, 1 failures\n", "",
			[]string{"unsteady: a.b/k.TestVM/6.1/x and 1 more of its parts\n"},
		},
		{"too unsteady", map[string]string{"node": "true"}, "p.TestB: 2 runs, 1 failures\np.TestC: 2 runs, 1 failures\nq.TestB: 2 runs, 1 failures\np.TestD: 2 runs, 1 failures\n", "4 tests passed in their second run", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "stages")
			for name, script := range c.stages {
				if _, err := run([]string{"run", dir, name, "sh", "-c", script}, io.Discard); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(filepath.Join(dir, "again"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "again", "1"), []byte(c.again), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			_, err := run([]string{"report", dir}, &out)
			if c.red == "" && err != nil || c.red != "" && (!errors.Is(err, errRed) || !strings.Contains(err.Error(), c.red)) {
				t.Errorf("report: %v, want %q", err, c.red)
			}
			for _, want := range c.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("it says\n%s, want %q in it", out.String(), want)
				}
			}
		})
	}
}

func TestStageKeepsTheExitCode(t *testing.T) {
	dir := t.TempDir()
	if code, err := run([]string{"run", dir, "broken", "sh", "-c", "exit 7"}, io.Discard); err != nil || code != 7 {
		t.Errorf("code %d, %v, want 7", code, err)
	}
	for _, args := range [][]string{nil, {"report"}, {"run", dir, "a"}} {
		if code, err := run(args, io.Discard); code != 2 || !errors.Is(err, errUsage) {
			t.Errorf("stage %q: %d, %v", args, code, err)
		}
	}
}
