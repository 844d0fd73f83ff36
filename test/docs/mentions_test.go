package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/berth-project/berth/internal/cli"
)

// TestMentionsParse has the command tree and the Makefile read each command between backquotes, on every Markdown page
// of the tree. So a sentence cannot name a command, flag, number of arguments, target or variable that does not exist.
func TestMentionsParse(t *testing.T) {
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	parsed := map[string]int{}
	for page, text := range everyPage(t) {
		for _, words := range mentions(text) {
			name, args := ofBerth(words)
			err := error(nil)
			switch {
			case name != "":
				err = parseMention(name, args)
			case words[0] == "make":
				name, err = "make", checkMake(string(makefile), words[1:])
			default:
				continue
			}
			parsed[name]++
			if err != nil {
				t.Errorf("%s: `%s`: %v", page, strings.Join(words, " "), err)
			}
		}
	}
	if parsed["berth"] < 300 || parsed["kubectl-berth"] < 30 || parsed["make"] < 50 {
		t.Errorf("the pages mention too few commands: %v", parsed)
	}
}

// everyPage returns each Markdown file of the tree.
func everyPage(t *testing.T) map[string]string {
	t.Helper()
	texts, err := pagesIn(root)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// pagesIn returns each Markdown file below a directory, except in what the Makefile builds there.
func pagesIn(dir string) (map[string]string, error) {
	texts := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "out", "dist"}, below):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		texts[name] = string(text)
		return err
	})
	return texts, err
}

// TestPagesIn checks that pages in directories of built files do not count, unless they are below another directory.
func TestPagesIn(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.md", "docs/out/b.md", "docs/c.txt", "out/d.md", "bin/e/f.md", "dist/g.md", ".git/h.md"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o750), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	texts, err := pagesIn(dir)
	if want := []string{filepath.Join(dir, "a.md"), filepath.Join(dir, "docs/out/b.md")}; err != nil || !slices.Equal(slices.Sorted(maps.Keys(texts)), want) {
		t.Errorf("%v, want %q: %v", texts, want, err)
	}
}

// mentions returns the words of each command between backquotes, outside of code blocks. Brackets around words that may
// be left out do not count.
func mentions(text string) [][]string {
	text = regexp.MustCompile("(?ms)^ *```.*?^ *```").ReplaceAllString(text, "")
	var all [][]string
	for _, match := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		typed := match[1]
		if !strings.Contains(typed, "'") {
			typed = strings.NewReplacer("[", "", "]", "").Replace(typed)
		}
		for _, words := range splitScript(typed) {
			if words = fromProgram(words); len(words) > 0 {
				all = append(all, words)
			}
		}
	}
	return all
}

// placeholder is a word in capitals, which stands for a value of the reader.
func placeholder(word string) bool { return regexp.MustCompile(`^[A-Z]+$`).MatchString(word) }

// parseMention reads a command as Berth does. A mention is shorter than a command line: the name of a command stands for
// the command with its arguments, and a flag at the end for the flag with its value. A placeholder stands for a value
// that Berth takes.
func parseMention(name string, args []string) error {
	found, rest, err := cli.Command(program(name)).Find(args)
	if err != nil {
		return fmt.Errorf("find the command: %w", err)
	}
	if len(rest) == 0 {
		return nil
	}
	for i, word := range rest {
		switch {
		case !placeholder(word):
		case len(found.ValidArgs) > 0:
			rest[i] = found.ValidArgs[0]
		default:
			rest[i] = "1"
		}
	}
	for c := found; c.HasParent(); c = c.Parent() {
		rest = append([]string{c.Name()}, rest...)
	}
	var noValue *pflag.ValueRequiredError
	switch err := parse(name, rest); {
	case errors.As(err, &noValue):
		return parse(name, append(rest, "1"))
	case !errors.Is(err, pflag.ErrHelp):
		return err
	}
	return nil
}

// checkMake checks the targets and variables of a command of make. A target that ends in an ellipsis stands for all
// targets that begin with it.
func checkMake(makefile string, words []string) error {
	for _, word := range words {
		name, _, variable := strings.Cut(word, "=")
		begins, some := strings.CutSuffix(word, "…")
		rule := `(?m)^` + regexp.QuoteMeta(name) + `:`
		switch {
		case strings.HasPrefix(word, "-"):
			continue
		case variable:
			rule = `\$[({]` + regexp.QuoteMeta(name) + `\b`
		case some:
			rule = `(?m)^` + regexp.QuoteMeta(begins) + `[a-z-]*:`
		}
		if !regexp.MustCompile(rule).MatchString(makefile) {
			return fmt.Errorf("the Makefile has no %q", word)
		}
	}
	return nil
}

// TestMentions shows what counts as a mention, and that a wrong one is refused.
func TestMentions(t *testing.T) {
	text := "Run `sudo berth top`, `berth run --cpus N -- COMMAND`,\n`berth rollback [--owner NAME]` or `berth.dev/move`.\n```sh\nx `berth status` y\n```\n"
	var got []string
	for _, words := range mentions(text) {
		got = append(got, strings.Join(words, " "))
	}
	if want := "berth top|berth run --cpus 1 -- COMMAND|berth rollback --owner NAME|berth.dev/move"; strings.Join(got, "|") != want {
		t.Errorf("mentions %q, want %s", got, want)
	}
	for line, refused := range map[string]string{
		"berth tune apply":                   "",
		"berth tune apply PROFILE":           "",
		"berth topology --capture":           "",
		"berth demo CAPABILITY":              "",
		"kubectl berth topology NODE":        "",
		"berth topology NODE":                "arguments",
		"berth tune aply":                    "arguments",
		"berth statsu":                       "arguments",
		"berth status --wach":                "flags",
		"berth place --cpus four":            "flags",
		"berth bench seeds nobody":           "argument",
		"berth memory migrate --pid PROCESS": "",
	} {
		name, args := ofBerth(strings.Fields(line))
		if err := parseMention(name, args); (err == nil) != (refused == "") || err != nil && !strings.HasPrefix(err.Error(), refused) {
			t.Errorf("%s: %v, want %q", line, err, refused)
		}
	}
	makefile := "test: deps\nverify-node:\n\tgo test $(ARGS)\n"
	for line, ok := range map[string]bool{"test": true, "verify-…": true, "test ARGS=-v": true, "tset": false, "test ARG=-v": false, "very-…": false} {
		if err := checkMake(makefile, strings.Fields(line)); (err == nil) != ok {
			t.Errorf("make %s: %v", line, err)
		}
	}
}
