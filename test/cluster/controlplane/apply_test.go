package controlplane

import (
	"errors"
	"testing"
)

func TestReadSplitsDocuments(t *testing.T) {
	const two = "# a comment\n---\nkind: A\nmetadata: {name: one}\n---\n\n---\nkind: B\nmetadata: {name: two}\nspec: {count: 9007199254740993}\n"
	objects, err := read([][]byte{[]byte(two), []byte("kind: C\nmetadata: {name: three}\n")})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, object := range objects {
		got += object.GetKind() + object.GetName()
	}
	if got != "AoneBtwoCthree" {
		t.Errorf("read = %q, want AoneBtwoCthree", got)
	}
	spec, ok := objects[1].Object["spec"].(map[string]any)
	if !ok || spec["count"] != int64(9007199254740993) {
		t.Errorf("spec = %v, want an exact integer", objects[1].Object["spec"])
	}
}

func TestReadNamesWhatIsWrong(t *testing.T) {
	for _, document := range []string{"kind: A\n", "metadata: {name: one}\n", "kind: [", "- a\n"} {
		if _, err := read([][]byte{[]byte(document)}); !errors.Is(err, ErrManifest) {
			t.Errorf("read(%q) = %v, want %v", document, err, ErrManifest)
		}
	}
}
