package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/cli"
)

// pictures returns the pictures of the pages by their files: a machine, and the cluster of docs/placement.md.
func pictures(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range example(t, documents(t)["docs/placement.md"]) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const pending = 1 // The exit code: a pod of that page stays pending.
	return map[string]string{
		"docs/pictures/topology.svg": drawn(t, 0, "topology", "--root", root+"/testdata/machines/hybrid-pe.txtar"),
		"docs/pictures/simulate.svg": drawn(t, pending, "simulate", "-f", filepath.Join(dir, "machine.json"), "-f", filepath.Join(dir, "pods.yaml")),
	}
}

// drawn returns the image that a command of Berth draws before it ends with an exit code.
func drawn(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, complaint bytes.Buffer
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &complaint}
	if code := cli.Run(t.Context(), append(args, "-o", "svg"), streams, "test"); code != want {
		t.Fatalf("berth %s: exit code %d, want %d: %s", strings.Join(args, " "), code, want, complaint.String())
	}
	return out.String()
}

// photographed is the picture that a browser takes in test/web.
const photographed = "docs/pictures/page.png"

// TestPicturesAreShown checks that a page shows each picture, with a text for readers who do not see it, and that each
// picture is generated.
func TestPicturesAreShown(t *testing.T) {
	files, err := filepath.Glob(root + "/docs/pictures/*")
	if err != nil {
		t.Fatal(err)
	}
	made, texts := pictures(t), documents(t)
	made[photographed] = ""
	if len(files) != len(made) {
		t.Errorf("docs/pictures has %q, and %d pictures are generated", files, len(made))
	}
	for file := range made {
		shown := false
		for page, text := range texts {
			link, err := filepath.Rel(filepath.Dir(page), file)
			if err != nil {
				t.Fatal(err)
			}
			before, _, found := strings.Cut(text, "]("+link+")")
			if !found {
				continue
			}
			shown = true
			if at := strings.LastIndex(before, "!["); at < 0 || len(before)-at < len("![a few words") || strings.Contains(before[at:], "\n") {
				t.Errorf("%s shows %s without a text", page, file)
			}
		}
		if !shown {
			t.Errorf("no page shows %s", file)
		}
	}
}
