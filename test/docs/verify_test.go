package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVerifyNamesTests compares the Makefile's lists of tests with the existing tests, so that a renamed test does not
// silently enter or leave a list, and each list with its page.
func TestVerifyNamesTests(t *testing.T) {
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	tests, page := testFunctions(t), documents(t)["docs/verify.md"]
	for _, list := range []string{"TIMED", "NET", "FAULTS", "SMOKE"} {
		line := regexp.MustCompile(`(?m)^` + list + ` := (.*)$`).FindString(string(makefile))
		names := regexp.MustCompile(`\^(Test\w+)\$\$`).FindAllStringSubmatch(line, -1)
		if len(names) == 0 {
			t.Errorf("the Makefile's %s names no test", list)
		}
		for _, name := range names {
			if !tests[name[1]] {
				t.Errorf("the Makefile's %s names %s, and there is no such test", list, name[1])
			}
			if !regexp.MustCompile(`\b` + name[1] + `\b`).MatchString(page) {
				t.Errorf("docs/verify.md does not say why %s is in %s", name[1], list)
			}
		}
	}
	cases, err := os.ReadFile(root + "/test/cluster/node/stage_test.go")
	if err != nil {
		t.Fatal(err)
	}
	smoke := regexp.MustCompile(`(?m)^SMOKE := .*/\^\((.*)\)\$\$$`).FindStringSubmatch(string(makefile))
	if smoke == nil {
		t.Fatal("the Makefile's SMOKE lists no cases")
	}
	for name := range strings.SplitSeq(smoke[1], "|") {
		if !strings.Contains(string(cases), `{"`+name+`", `) {
			t.Errorf("the Makefile's SMOKE names %s, and TestNode has no such case", name)
		}
		if !strings.Contains(page, name) {
			t.Errorf("docs/verify.md does not name %s", name)
		}
	}
}

// testFunctions returns the names of all tests of the tree.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
			names[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
