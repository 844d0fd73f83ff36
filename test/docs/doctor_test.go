package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/doctor"
)

// TestDoctorPageListsTheChecks compares the table of docs/doctor.md with the checks, and
// the codes that its other parts name.
func TestDoctorPageListsTheChecks(t *testing.T) {
	const page, begin, end = "docs/doctor.md", " -->\n", "<!-- end -->"
	var table strings.Builder
	table.WriteString("| Code | Severity | Found | Rule | Threshold, source | Remedy | Risk | Hides |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range doctor.Checks() {
		hides := "-"
		if c.Hides != "" {
			hides = c.Hides
		}
		cells := []string{"`" + c.Code + "`", string(c.Severity), c.Title, c.Formula, c.Threshold + "; " + c.Source, c.Remedy, c.Risk, hides}
		table.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	text := documents(t)[page]
	head, rest, _ := strings.Cut(text, begin)
	was, tail, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no table between %q and %q", page, begin, end)
	}
	if *update {
		text = head + begin + table.String() + end + tail
		if err := os.WriteFile(root+"/"+page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		was = table.String()
	}
	if diff := cmp.Diff(table.String(), was); diff != "" {
		t.Errorf("the table of %s (-program +page; -update writes it):\n%s", page, diff)
	}
	for _, c := range doctor.Checks() {
		if !strings.Contains(head, "`"+c.Code+"`") {
			t.Errorf("%s names no symptom for %s", page, c.Code)
		}
	}
}
