package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// widest is the number of columns that a line of output may have.
const widest = 120

// TestTablesFitTheScreen: every recorded machine fits the screen in every format for people.
func TestTablesFitTheScreen(t *testing.T) {
	machines, err := filepath.Glob(machinesDir + "*.txtar")
	if err != nil || len(machines) == 0 {
		t.Fatal("no machines", err)
	}
	for _, machine := range machines {
		for _, args := range [][]string{
			{"topology", "--root", machine},
			{"topology", "--root", machine, "-o", "table"},
			{"place", "--cpus", "1", "--whole-machine", "--root", machine},
			{"simulate", "-f", machine, "-f", "testdata/pods.yaml"},
		} {
			code, out, errs := berthRun(t, args...)
			if out == "" {
				t.Errorf("%q: exit code %d, %s", args, code, errs)
			}
			fits(t, args, out)
		}
	}
}

// TestPictureFitsTheScreen: a picture of cores with eight threads fits the screen.
func TestPictureFitsTheScreen(t *testing.T) {
	var cores []string
	for first := 0; first < 512; first += 8 {
		cores = append(cores, fmt.Sprintf(`{"id":%d,"cpus":"%d-%d"}`, first, first, first+7))
	}
	machine := filepath.Join(t.TempDir(), "machine.json")
	text := `{"online":"0-511","cores":[` + strings.Join(cores, ",") + `]}`
	if err := os.WriteFile(machine, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"place", "--cpus", "8", "--topology", machine}
	code, out, errs := berthRun(t, args...)
	if code != 0 || strings.Count(out, ".") < 512-8 {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	fits(t, args, out)
}

// fits checks that every line of an output fits the screen, except prose.
func fits(t *testing.T, args []string, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		prose := strings.Contains(line, "warning:") || strings.HasPrefix(line, "note:") || strings.HasPrefix(line, "  - ")
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > widest && !prose {
			t.Errorf("%q: %d columns: %s", args, n, line)
		}
	}
}

// TestDistancesOfManyNodes: with more than eight nodes the tree groups them by distance, and the JSON contains every
// distance.
func TestDistancesOfManyNodes(t *testing.T) {
	_, out, _ := berthRun(t, "topology", "--root", machinesDir+"nodes-64.txtar")
	for _, want := range []string{"distances 10 to 0, 21 to 1-63\n", "distances 10 to 9, 21 to 0-8,10-63\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	_, out, _ = berthRun(t, "topology", "--root", machinesDir+"nodes-64.txtar", "-o", "json")
	if n := strings.Count(out, "        21,\n") + strings.Count(out, "        21\n"); n != 64*63 {
		t.Errorf("the JSON has %d distances to other nodes, want %d", n, 64*63)
	}
}
