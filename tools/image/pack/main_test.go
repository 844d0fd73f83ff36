package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/tools/image"
)

// TestRefusesWhatIsTooLarge packs a program that may be shipped, whose digest pack prints, and a program that is too
// large. The second leaves no archive.
func TestRefusesWhatIsTooLarge(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		bytes int64
		want  error
	}{"small": {10, nil}, "large": {60_000_001, image.ErrLarge}} {
		program, archive := filepath.Join(dir, name), filepath.Join(dir, name+"-oci.tar")
		if err := os.WriteFile(program, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(program, c.bytes); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		if err := run(&said, []string{archive, name, "v1.2.3", "1700000000", "amd64=" + program}); !errors.Is(err, c.want) {
			t.Errorf("the %s program: %v, want %v", name, err, c.want)
		}
		if named := strings.HasPrefix(said.String(), "amd64 sha256:"); named != (c.want == nil) {
			t.Errorf("the %s program: pack prints %q", name, said.String())
		}
		if _, err := os.Stat(archive); (err == nil) != (c.want == nil) {
			t.Errorf("the archive of the %s program: %v", name, err)
		}
	}
}

// TestUsage checks arguments that name no release or no program.
func TestUsage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "oci.tar")
	for _, args := range [][]string{nil, {out, "hello", "v1.2.3", "1"}, {out, "hello", "v1.2.3", "1", "amd64"}} {
		if err := run(io.Discard, args); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v, want %v", args, err, errUsage)
		}
	}
	if err := run(io.Discard, []string{out, "hello", "v1.2.3", "yesterday", "amd64=" + out}); err == nil || errors.Is(err, errUsage) {
		t.Errorf("a date that is no number: %v", err)
	}
}
