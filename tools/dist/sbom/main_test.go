package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/berth-project/berth/tools/image/notices"
)

// TestBill writes the bill of this test program twice: the two bills must be equal. It compares their modules with the
// program's own build information.
func TestBill(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string) []byte {
		file := filepath.Join(t.TempDir(), name)
		if err := run([]string{file, "program", "v1.2.3", "86400", program}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text := write("one.json")
	if !bytes.Equal(text, write("another.json")) {
		t.Error("the same program has two bills")
	}
	var bill cdx.BOM
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	if got := bill.Metadata; got.Timestamp != "1970-01-02T00:00:00Z" || got.Component.Name != "program" || got.Component.Version != "v1.2.3" {
		t.Errorf("the bill is of %+v at %s", got.Component, got.Timestamp)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || len(info.Deps) == 0 {
		t.Fatalf("the test has %+v", info)
	}
	for _, module := range info.Deps {
		found := slices.ContainsFunc(*bill.Components, func(c cdx.Component) bool {
			return c.PackageURL == "pkg:golang/"+module.Path+"@"+module.Version && c.Hashes != nil
		})
		if !found {
			t.Errorf("the bill lacks %s %s", module.Path, module.Version)
		}
	}
	if len(*bill.Components) != len(info.Deps)+1 {
		t.Errorf("%d components for %d modules and the library of Go", len(*bill.Components), len(info.Deps))
	}
}

// TestNotices checks that the notices of this test program have a license text for each module of its bill.
func TestNotices(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bill, err := describe(program, "program", "v1.2.3", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := notices.Of(strings.TrimSpace(string(cache)), file)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := notices.Of(strings.TrimSpace(string(cache)), file, file); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same program has other notices the second time: %v", err)
	}
	for _, part := range *bill.Components {
		if line := "\n" + part.Name + " " + part.Version + " "; part.Hashes != nil && !bytes.Contains(text, []byte(line)) {
			t.Errorf("no license of %s %s", part.Name, part.Version)
		}
	}
	for _, want := range []string{"\nstd ", "The Go Authors", "Apache License"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
}

// TestReplaced checks that the bill lists the replacement of a module, which is what the program contains. A module
// that is replaced by a directory of the tree keeps its own name and has no sum.
func TestReplaced(t *testing.T) {
	const sum = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	fork := &debug.Module{Path: "example.org/fork", Version: "v2.0.0", Sum: sum}
	got, err := dependency(&debug.Module{Path: "example.org/old", Version: "v1.0.0", Replace: fork})
	if err != nil || got.PackageURL != "pkg:golang/example.org/fork@v2.0.0" || got.Hashes == nil {
		t.Errorf("%+v: %v", got, err)
	}
	got, err = dependency(&debug.Module{Path: "example.org/here", Version: "v0.0.0", Replace: &debug.Module{Path: "../..", Version: "(devel)"}})
	if err != nil || got.PackageURL != "pkg:golang/example.org/here@v0.0.0" || got.Hashes != nil {
		t.Errorf("%+v: %v", got, err)
	}
	if _, err := dependency(&debug.Module{Path: "example.org/bare", Version: "v1.0.0"}); err == nil {
		t.Error("a module without a sum passes")
	}
}

// TestNoProgram checks that describe fails for a file that Go did not link.
func TestNoProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if bill, err := describe(file, "script", "v1", time.Unix(0, 0)); err == nil {
		t.Errorf("the bill is %+v", bill)
	}
}
