package kernel

import (
	"bytes"
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entries reads an archive back: the field positions are those of the kernel's document.
func entries(t *testing.T, data []byte) map[string]string {
	t.Helper()
	field := func(n int) int {
		v, err := strconv.ParseUint(string(data[6+8*n:14+8*n]), 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		return int(v)
	}
	align := func(n int) int { return (n + 3) &^ 3 }
	found := map[string]string{}
	for len(data) > 0 {
		if string(data[:6]) != "070701" {
			t.Fatalf("no magic number in %q", data[:6])
		}
		size, nameSize := field(6), field(11)
		name := string(data[110 : 110+nameSize-1])
		start := align(110 + nameSize)
		found[name] = strconv.FormatInt(int64(field(1)), 8) + " " + string(data[start:start+size])
		data = data[align(start+size):]
	}
	return found
}

func TestArchiveHoldsFilesAndTheirDirectories(t *testing.T) {
	var out bytes.Buffer
	a := NewArchive(&out)
	a.Dir("/dev")
	a.File("/init", []byte("x"))
	a.File("/tests/a/live.test", []byte("12345"))
	a.File("/tests/a/testdata/f", nil)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"dev": "40755 ", "init": "100755 x",
		"tests": "40755 ", "tests/a": "40755 ", "tests/a/live.test": "100755 12345",
		"tests/a/testdata": "40755 ", "tests/a/testdata/f": "100755 ",
		"TRAILER!!!": "0 ",
	}
	if diff := cmp.Diff(want, entries(t, out.Bytes())); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

type fullDisk struct{}

var errFull = errors.New("full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestArchiveReportsTheFirstWriteError(t *testing.T) {
	a := NewArchive(fullDisk{})
	a.File("/init", []byte("x"))
	if err := a.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close() = %v", err)
	}
}
