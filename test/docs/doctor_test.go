package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/doctor"
)

// TestDoctorPageListsTheChecks compares the table of docs/doctor.md with the checks, and finds codes on the page that
// no check has.
func TestDoctorPageListsTheChecks(t *testing.T) {
	const page, begin, end = "docs/doctor.md", " -->\n", "<!-- end -->"
	var table strings.Builder
	table.WriteString("| Code | Severity | Found | Rule | Threshold, source | Remedy | Risk | Hides |\n|---|---|---|---|---|---|---|---|\n")
	pages := regexp.MustCompile(`docs/[a-z-]+\.md`)
	for _, c := range doctor.Checks() {
		for _, page := range pages.FindAllString(c.Remedy+c.Source, -1) {
			if _, err := os.Stat(filepath.Join("../..", page)); err != nil {
				t.Errorf("%s: %v", c.Code, err)
			}
		}
	}
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

// TestRemediesNameCommandsThatExist runs the help of every command in a remedy. For a command with subcommands the
// second word must be one of them.
func TestRemediesNameCommandsThatExist(t *testing.T) {
	command := regexp.MustCompile(`berth ([a-z-]+)(?: ([a-z-]+))?`)
	known := 0
	for _, c := range doctor.Checks() {
		for _, match := range command.FindAllStringSubmatch(c.Remedy, -1) {
			args := match[1:2]
			if strings.Contains(help(t, args...), "berth "+match[1]+" [command]") {
				args = match[1:3]
			}
			if !strings.Contains(help(t, args...), "berth "+strings.Join(args, " ")) {
				t.Errorf("%s: no command berth %s: %s", c.Code, strings.Join(args, " "), c.Remedy)
			}
			known++
		}
	}
	if known == 0 {
		t.Error("no remedy names a command")
	}
}

// help returns the help of a command of berth, "" if the command does not exist.
func help(t *testing.T, args ...string) string {
	t.Helper()
	return helpOf(t, program("berth"), args...)
}

// helpOf returns the help of a command of a program, "" if the command does not exist.
func helpOf(t *testing.T, p cli.Program, args ...string) string {
	t.Helper()
	var out, complaint bytes.Buffer
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &complaint}
	if cli.RunAs(t.Context(), p, append(slices.Clone(args), "--help"), streams) != 0 {
		return ""
	}
	return out.String()
}
