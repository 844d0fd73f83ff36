package docs

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/knob"
)

// TestTuneTablesAreGenerated compares the tables of docs/tune.md with the catalog and the built-in profiles.
func TestTuneTablesAreGenerated(t *testing.T) {
	const name = root + "/docs/tune.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	made := string(text)
	for table, rows := range map[string]string{"profiles": profileRows(t), "knobs": knobRows(), "traps": trapRows(), "moved": movedRows()} {
		block := regexp.MustCompile(`(?s)<!-- ` + table + ` -->\n.*?<!-- end -->`)
		if !block.MatchString(made) {
			t.Fatalf("docs/tune.md has no table of %s", table)
		}
		made = block.ReplaceAllLiteralString(made, "<!-- "+table+" -->\n"+rows+"<!-- end -->")
	}
	if *update {
		if err := os.WriteFile(name, []byte(made), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(text), made); diff != "" {
		t.Errorf("-update writes docs/tune.md (-file +generated):\n%s", diff)
	}
}

func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

func profileRows(t *testing.T) string {
	t.Helper()
	rows := row("Profile", "For") + "|---|---|\n"
	for _, name := range profile.BuiltIns() {
		text, ok := profile.BuiltIn(name)
		if !ok {
			t.Fatal(name)
		}
		rows += row("`"+name+"`", profile.About(text))
	}
	return rows
}

func knobRows() string {
	rows := row("Knob", "What it is", "Values", "Advised", "Where", "How the effective value is read", "Undo", "Risk") + "|---|---|---|---|---|---|---|---|\n"
	for _, k := range knob.Catalogue() {
		var places []string
		for _, p := range k.Places {
			where := "`" + p.File + "`"
			if len(k.Places) > 1 {
				where = p.Kernels + ": " + where
			}
			places = append(places, where)
		}
		advised := "-"
		switch {
		case k.SafeHigh == 0:
		case k.Unit == knob.Duration:
			advised = knob.Span(k.SafeLow) + " to " + knob.Span(k.SafeHigh)
		default:
			advised = fmt.Sprintf("%d to %d", k.SafeLow, k.SafeHigh)
		}
		rows += row("`"+k.Name+"`", k.About, k.Range(), advised, strings.Join(places, "<br>"), k.Effective, string(k.Class), string(k.Risk))
	}
	return rows
}

func trapRows() string {
	rows := row("Knob", "Trap") + "|---|---|\n"
	for _, k := range knob.Catalogue() {
		trap := k.Trap
		if k.Harm != "" {
			trap = "more than advised: " + k.Harm
		}
		if trap != "" {
			rows += row("`"+k.Name+"`", trap)
		}
	}
	return rows
}

func movedRows() string {
	rows := row("Sysctl", "Gone since", "Instead") + "|---|---|---|\n"
	for _, m := range knob.MovedSysctls() {
		var instead []string
		if m.Knob != "" {
			text := "`" + m.Knob + "`"
			if m.Gone != "" {
				text += " until " + m.Gone
			}
			instead = append(instead, text)
		}
		if m.File != "" {
			instead = append(instead, "`"+m.File+"`, for which Berth has no knob")
		}
		if m.Instead != "" {
			instead = append(instead, "then "+m.Instead)
		}
		rows += row("`"+m.Sysctl+"`", m.Since, strings.Join(instead, "; "))
	}
	return rows
}

// TestFindingsAreDocumented compares the codes that lint and plan add with the codes on the page, in both directions.
func TestFindingsAreDocumented(t *testing.T) {
	made, said := map[string]bool{}, map[string]bool{}
	for _, file := range []string{"profile/lint.go", "boot.go", "tuner/overruled.go"} {
		source, err := os.ReadFile(root + "/internal/capability/tune/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?:l\.add\(|Code: )"([a-z0-9-]+)"`).FindAllStringSubmatch(string(source), -1) {
			made[match[1]] = true
		}
	}
	page := documents(t)["docs/tune.md"]
	_, after, _ := strings.Cut(page, "| Finding | Means |")
	table, _, _ := strings.Cut(after, "\n\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 2 {
			continue
		}
		for _, match := range regexp.MustCompile("`([a-z0-9-]+)`").FindAllStringSubmatch(cells[1], -1) {
			said[match[1]] = true
		}
	}
	if diff := cmp.Diff(made, said); diff != "" {
		t.Errorf("findings (-made +documented):\n%s", diff)
	}
}
