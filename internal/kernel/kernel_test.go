package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/unit"
)

// host is a recorded host with one file, or none.
func host(t *testing.T, name, content string) *hostfs.Root {
	t.Helper()
	dir := t.TempDir()
	if name != "" {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func TestBootID(t *testing.T) {
	const id = "b2e2e7e8-6a0c-4bb1-93a7-0f3f0b1d2c3d"
	if got, err := BootID(host(t, bootIDFile, id+"\n")); err != nil || got != id {
		t.Errorf("%q, %v", got, err)
	}
	for _, content := range []string{"", "\n", "two words\n"} {
		if got, err := BootID(host(t, bootIDFile, content)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
	if _, err := BootID(host(t, "", "")); err == nil {
		t.Error("a boot id without a file")
	}
}

func TestBandwidthSlice(t *testing.T) {
	for content, want := range map[string]unit.Micros{"5000\n": 5000, "1": 1, "20000\n": 20_000} {
		if got, err := BandwidthSlice(host(t, sliceFile, content)); err != nil || got != want {
			t.Errorf("%q: %d, %v", content, got, err)
		}
	}
	for _, content := range []string{"", "0\n", "-1\n", "x", "99999999999"} {
		if got, err := BandwidthSlice(host(t, sliceFile, content)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %d, %v", content, got, err)
		}
	}
	if got, err := BandwidthSlice(host(t, "", "")); err != nil || got != DefaultSlice {
		t.Errorf("without the file: %d, %v", got, err)
	}
}

func TestCPUBusy(t *testing.T) {
	for content, want := range map[string]unit.CPUTime{
		"cpu  1 2 4 1000 1000 8 16 1000 1000 1000\ncpu0 1 2 4 8\n": 310_000_000,
		"cpu  0 0 0 0 0 0 0 0\n":                                   0,
		"cpu 100 0 0 0 0 0 0":                                      1_000_000_000,
	} {
		if got, err := CPUBusy(host(t, statFile, content)); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", content, got, err, want)
		}
	}
	for _, content := range []string{
		"", "cpu0 1 2 3 4 5 6 7\n", "cpu 1 2 3\n", "cpu 1 2 x 4 5 6 7\n", "cpu -1 2 3 4 5 6 7\n",
		"cpu 18446744073709551615 1 1 1 1 1 1\n", "cpu 900000000000 900000000000 0 0 0 0 0\n",
	} {
		if got, err := CPUBusy(host(t, statFile, content)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %d, %v", content, got, err)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add("cpu  1 2 4 1000 1000 8 16 1000 1000 1000")
	f.Add("cpu 900000000000 900000000000 0 0 0 0 0")
	f.Fuzz(func(t *testing.T, line string) {
		busy, err := parseStat(line)
		if busy < 0 || (err != nil && !errors.Is(err, ErrMalformed)) {
			t.Errorf("%d, %v", busy, err)
		}
	})
}

// TestProbe walks through the answers a kernel may give, in order, and what
// is remembered.
func TestProbe(t *testing.T) {
	busy := errors.New("no memory just now")
	for _, c := range []struct {
		name    string
		answers []error
		want    []Support
		asked   int
	}{
		{"supported", []error{nil, busy}, []Support{Supported, Supported}, 1},
		{"unsupported", []error{ErrNotSupported, nil}, []Support{Unsupported, Unsupported}, 1},
		{"unknown, then supported", []error{busy, nil, busy}, []Support{Unknown, Supported, Supported}, 2},
		{"unknown, then unsupported", []error{busy, busy, ErrNotSupported}, []Support{Unknown, Unknown, Unsupported}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			p := NewProbe(func() error {
				asked++
				return c.answers[asked-1]
			})
			for i, want := range c.want {
				got, err := p.Result()
				if got != want || (err == nil) != (want == Supported) {
					t.Errorf("answer %d: %v, %v, want %v", i, got, err, want)
				}
			}
			if asked != c.asked {
				t.Errorf("asked %d times, want %d", asked, c.asked)
			}
		})
	}
	if s := Unknown.String() + Supported.String() + Unsupported.String() + Support(9).String(); s != "unknownsupportedunsupportedSupport(9)" {
		t.Error(s)
	}
}
