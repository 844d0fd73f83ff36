package notices

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTexts finds the texts of a module and of the third parties in it, however their files are named.
func TestTexts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE": "mine\r\nall\n", "NOTICE.txt": "by me", "license.go": "package x", "licensing.md": "how",
		"third_party/LICENSE-MIT": "theirs", "testdata/LICENSE": "a test's", "vendor/v/COPYING": "vendored",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := textsIn(dir)
	if err != nil || len(got) != 3 || got["LICENSE"] != "mine\nall" || got["NOTICE.txt"] != "by me" || got["third_party/LICENSE-MIT"] != "theirs" {
		t.Errorf("texts are %q: %v", got, err)
	}
	if _, err := textsIn(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("a module without a text: %v", err)
	}
	if got := escaped("github.com/BurntSushi/toml"); got != "github.com/!burnt!sushi/toml" {
		t.Errorf("escaped: %s", got)
	}
	if _, err := Of(dir, strings.NewReader("#!/bin/sh\n")); !errors.Is(err, ErrProgram) {
		t.Errorf("a script: %v", err)
	}
}

// TestGoLicense compares the license of Go with that of the toolchain. It runs with the archives of go.dev, which the go
// command fetches too; packages of a distribution keep the text elsewhere.
func TestGoLicense(t *testing.T) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("this toolchain has no license in its directory: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.TrimSpace(text); string(got) != goLicense {
		t.Errorf("the toolchain has\n%s", got)
	}
}
