package docs

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/cli"
)

var update = flag.Bool("update", false, "write what the commands print into the documents")

// example returns the files of docs/placement.md: a machine, and pods.
func example(t *testing.T, page string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for name, language := range map[string]string{"machine.json": "json", "pods.yaml": "yaml"} {
		blocks := fenced(page, language)
		if len(blocks) == 0 {
			t.Fatalf("docs/placement.md has no block of %s", language)
		}
		files[name] = blocks[0]
	}
	return files
}

// TestPlacementOutputsAreReal runs the commands of docs/placement.md on the files in it, and compares their output with
// the page.
func TestPlacementOutputsAreReal(t *testing.T) {
	const name = root + "/docs/placement.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	document := string(text)
	t.Chdir(t.TempDir())
	files := example(t, document)
	files["bad.yaml"] = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, resources: {limits: {cpu: four}}}]}\n"
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	printedText := document
	sessions := fenced(document, "console")
	for _, session := range sessions {
		command, _, _ := strings.Cut(session, "\n")
		printedText = strings.Replace(printedText, session, command+"\n"+printed(t, command), 1)
	}
	if len(sessions) == 0 {
		t.Error("the document has no session any more")
	}
	if *update {
		if err := file.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte(printedText), 0); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(document, printedText); diff != "" {
		t.Errorf("docs/placement.md (-written +printed):\n%s", diff)
	}
}

// printed returns the output of a command, including errors, without trailing blanks.
func printed(t *testing.T, command string) string {
	t.Helper()
	words, ok := strings.CutPrefix(command, "$ berth ")
	if !ok {
		t.Fatalf("%q is no command of Berth", command)
	}
	var out bytes.Buffer
	cli.Run(t.Context(), strings.Fields(words), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, "test")
	var lines strings.Builder
	for line := range strings.Lines(out.String()) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return lines.String()
}
