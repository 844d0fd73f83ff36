package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/cli"
)

// TestCommandLinesParse has Berth parse its command lines in the code blocks of all pages, and run none of them. So a
// page cannot name a command, a flag or a number of arguments that Berth refuses.
func TestCommandLinesParse(t *testing.T) {
	parsed := map[string]int{}
	for page, text := range documents(t) {
		for _, words := range commandLines(text) {
			name, args := ofBerth(words)
			if name == "" {
				continue
			}
			parsed[name]++
			if err := parse(name, args); err != nil {
				t.Errorf("%s: %s: %v", page, strings.Join(words, " "), err)
			}
		}
	}
	if parsed["berth"] < 40 || parsed["kubectl-berth"] < 2 {
		t.Errorf("the pages have too few command lines: %v", parsed)
	}
}

// parse finds the command of a program by its name, and reads the flags and arguments of the command.
func parse(name string, args []string) error {
	found, rest, err := cli.Command(program(name)).Find(args)
	if err != nil {
		return fmt.Errorf("find the command: %w", err)
	}
	if err := found.ParseFlags(rest); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	given := found.Flags().Args()
	if err := found.ValidateArgs(given); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	for _, arg := range given {
		if len(found.ValidArgs) > 0 && !slices.Contains(found.ValidArgs, arg) {
			return fmt.Errorf("argument %q: allowed: %s", arg, strings.Join(found.ValidArgs, ", "))
		}
	}
	return nil
}

// TestParse shows that parse refuses what Berth refuses.
func TestParse(t *testing.T) {
	for _, test := range []struct {
		program, line, refused string
	}{
		{"berth", "bench seeds apache --quick", ""},
		{"berth", "bench seeds nobody", `argument "nobody"`},
		{"berth", "tune bench throughput -- make -j8 -B", ""},
		{"berth", "tune bench throughput make", "arguments"},
		{"berth", "place --cpus four", "flags"},
		{"berth", "status --wach", "flags"},
		{"berth", "statsu", "arguments"},
		{"kubectl-berth", "topology node-a", ""},
		{"kubectl-berth", "topology", "arguments"},
	} {
		err := parse(test.program, strings.Fields(test.line))
		if (err == nil) != (test.refused == "") || err != nil && !strings.HasPrefix(err.Error(), test.refused) {
			t.Errorf("%s %s: %v, want %q", test.program, test.line, err, test.refused)
		}
	}
}

// TestMakeTargetsExist checks the targets that pages name in code blocks. TestMentionsParse checks all others.
func TestMakeTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, rule := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, rule[1])
	}
	named := 0
	for page, text := range documents(t) {
		for _, target := range makeTargets(text) {
			named++
			if !slices.Contains(targets, target) {
				t.Errorf("%s: the Makefile has no target %q", page, target)
			}
		}
	}
	if named < 15 {
		t.Errorf("the pages name %d targets", named)
	}
}

// makeTargets returns the targets that a Markdown text names.
func makeTargets(text string) []string {
	var all []string
	target := regexp.MustCompile(`^[a-z][a-z-]*$`)
	for _, words := range commandLines(text) {
		if len(words) == 0 || words[0] != "make" {
			continue
		}
		all = append(all, slices.DeleteFunc(slices.Clone(words[1:]), func(word string) bool { return !target.MatchString(word) })...)
	}
	return all
}

// TestManifestsExist checks each path below deploy and manifests that a page names.
func TestManifestsExist(t *testing.T) {
	named := map[string]bool{}
	for page, text := range documents(t) {
		for _, name := range regexp.MustCompile(`\b(?:deploy|manifests)/[\w./-]*\w`).FindAllString(text, -1) {
			named[name] = true
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s names %s: %v", page, name, err)
			}
		}
	}
	if len(named) < 20 {
		t.Errorf("the pages name %d paths below deploy", len(named))
	}
}

// commandLines returns the words of the commands in the sh blocks of a Markdown text, and of the commands after a
// prompt in its console blocks.
func commandLines(text string) [][]string {
	scripts := fenced(text, "sh")
	for _, block := range fenced(text, "console") {
		for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
			if typed, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				scripts = append(scripts, typed)
			}
		}
	}
	var all [][]string
	for _, script := range scripts {
		for _, words := range splitScript(script) {
			if words = fromProgram(words); len(words) > 0 {
				all = append(all, words)
			}
		}
	}
	return all
}

// splitScript splits a script of the shell into commands, and the commands into words. It leaves out comments and
// redirections. A variable, or a capital letter that stands for a number, becomes 1, which every flag of a number
// accepts.
func splitScript(script string) [][]string {
	const word = `(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\;|&()<>])+`
	token := regexp.MustCompile(`#[^\n]*|\d*[<>]+&?[ \t]*(?:` + word + `)?|(` + word + `)|([\n;|&()]+)`)
	quotes := regexp.MustCompile(`'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)`)
	script = strings.ReplaceAll(script, "\\\n", " ")
	script = regexp.MustCompile(`\$\{?[A-Za-z_]\w*\}?`).ReplaceAllString(script, "1")
	script = regexp.MustCompile(`(?m)(\s)[A-Z](\s|$)`).ReplaceAllString(script, "${1}1${2}")
	var all [][]string
	var words []string
	for _, match := range token.FindAllStringSubmatch(script, -1) {
		switch {
		case match[1] != "":
			words = append(words, quotes.ReplaceAllString(match[1], "$1$2$3"))
		case match[2] != "":
			all, words = append(all, words), nil
		}
	}
	return append(all, words)
}

// fromProgram returns the words of a command without the words before its program: sudo, assignments, and keywords of
// the shell.
func fromProgram(words []string) []string {
	before := regexp.MustCompile(`(?s)^(?:sudo|nice|env|time|exec|do|then|else|while|if|[A-Za-z_]\w*=.*)$`)
	for len(words) > 0 && before.MatchString(words[0]) {
		words = words[1:]
	}
	return words
}

// ofBerth returns the program of Berth that a command starts, by its own name, and its arguments. The name is empty for
// other programs.
func ofBerth(words []string) (name string, args []string) {
	switch own := path.Base(words[0]); {
	case own == "berth" || own == "kubectl-berth":
		return own, words[1:]
	case len(words) > 1 && words[0] == "kubectl" && words[1] == "berth":
		return "kubectl-berth", words[2:]
	}
	return "", nil
}

// TestCommandLines shows what counts as a command, and how it is split.
func TestCommandLines(t *testing.T) {
	text := "```sh\n" +
		"sudo env A=b bin/berth run --cpus N -- ./server   # berth status\n" +
		"make bench BENCHARGS='--out out/pods' \\\n  PEER=x\n" +
		"kubectl get pods -o json | berth simulate -f - -f new.yaml >out.txt 2>&1\n" +
		"dirs=$(go run ./programs | awk '{print $2}')\n" +
		"for P in 0 5; do berth bench interference --reserve $P --out \"out/$P\"; done\n" +
		"berth tune bench low --metric 'p99: ([0-9.]+) ms' && berth top &\n" +
		"kubectl apply -f - <<EOF\nkind: Lease\nEOF\n" +
		"```\nberth status\n```console\n$ kubectl berth web\nberth: failed\n```\n"
	want := [][]string{
		{"bin/berth", "run", "--cpus", "1", "--", "./server"},
		{"make", "bench", "BENCHARGS=--out out/pods", "PEER=x"},
		{"kubectl", "get", "pods", "-o", "json"},
		{"berth", "simulate", "-f", "-", "-f", "new.yaml"},
		{"go", "run", "./programs"},
		{"awk", "{print $2}"},
		{"for", "1", "in", "0", "5"},
		{"berth", "bench", "interference", "--reserve", "1", "--out", "out/1"},
		{"done"},
		{"berth", "tune", "bench", "low", "--metric", "p99: ([0-9.]+) ms"},
		{"berth", "top"},
		{"kubectl", "apply", "-f", "-"},
		{"kind:", "Lease"},
		{"EOF"},
		{"kubectl", "berth", "web"},
	}
	if diff := cmp.Diff(want, commandLines(text)); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}
