package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/unit"
)

// host returns a recorded host with one file, or none.
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

func TestBefore(t *testing.T) {
	for content, want := range map[string]bool{
		"5.15.0-105-generic\n": true, "6.1.0-18-amd64\n": true, "6.2.0\n": false, "6.18.44\n": false, "10.0": false, "4.18.0-513.el8\n": true,
	} {
		if got, err := Before(host(t, releaseFile, content), 6, 2); err != nil || got != want {
			t.Errorf("%q: %v, %v", content, got, err)
		}
	}
	for _, content := range []string{"", "6\n", "x.y\n"} {
		if _, err := Before(host(t, releaseFile, content), 6, 2); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := Before(host(t, "", ""), 6, 2); err == nil {
		t.Error("a version without a file")
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

func TestMachineSpent(t *testing.T) {
	const tick = 10_000_000
	for content, want := range map[string]unit.CPUSpent{
		"cpu  1 2 4 100 200 8 16 32 1000 1000\ncpu0 1 2 4 8 16 8 16 32\n": {Busy: 31 * tick, Idle: 300 * tick, Steal: 32 * tick},
		"cpu 1 0 0 7 0 0 0": {Busy: tick, Idle: 7 * tick},
	} {
		if got, err := MachineSpent(host(t, statFile, content)); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", content, got, err, want)
		}
	}
	if got, err := MachineSpent(host(t, statFile, "cpu 1 2 x 4 5 6 7\n")); !errors.Is(err, ErrMalformed) || got != (unit.CPUSpent{}) {
		t.Errorf("damaged: %v, %v", got, err)
	}
	if _, err := MachineSpent(host(t, "", "")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}

func TestPagesTaken(t *testing.T) {
	for content, want := range map[string][2]uint64{
		"nr_free_pages 9\nnuma_hit 7\nnuma_local 12\nnuma_other 3\n": {12, 3},
		"nr_free_pages 9\n": {},
	} {
		if local, other, err := PagesTaken(host(t, "proc/vmstat", content)); err != nil || [2]uint64{local, other} != want {
			t.Errorf("%q: %d, %d, %v, want %d", content, local, other, err, want)
		}
	}
	for _, content := range []string{"numa_local x\n", "numa_other\n", "numa_other -1\n"} {
		if _, _, err := PagesTaken(host(t, "proc/vmstat", content)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestSwitchesDone(t *testing.T) {
	if got, err := SwitchesDone(host(t, statFile, "cpu  1 2 3\nintr 9 9\nctxt 3000000123\nbtime 7\n")); err != nil || got != 3_000_000_123 {
		t.Errorf("%d, %v", got, err)
	}
	for _, content := range []string{"", "cpu  1 2 3\n", "ctxt\n", "ctxt x\n", "ctxt -1\n"} {
		if got, err := SwitchesDone(host(t, statFile, content)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %d, %v", content, got, err)
		}
	}
	if _, err := SwitchesDone(host(t, "", "")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}

func TestCPUsSpent(t *testing.T) {
	const tick = 10_000_000
	for content, want := range map[string][]unit.CPUSpent{
		"cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 4 100 200 8 16 32 1000 1000\ncpu2 0 0 0 7 0 0 0 0\nintr 5 5\ncpu9 1 1 1 1 1 1 1\n": {
			{Busy: 31 * tick, Idle: 300 * tick, Steal: 32 * tick}, {}, {Idle: 7 * tick},
		},
		"cpu0 1 0 0 0 0 0 0\n": {{Busy: tick}},
	} {
		if got, err := CPUsSpent(host(t, statFile, content)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", content, got, err, want)
		}
	}
	for _, content := range []string{
		"", "cpu  1 2 3 4 5 6 7 8\n", "cpu1 1 1 1 1 1 1 1\ncpu0 1 1 1 1 1 1 1\n", "cpu0 1 1 1 1 1 1 1\ncpu0 1 1 1 1 1 1 1\n",
		"cpux 1 1 1 1 1 1 1\n", "cpu0 1 1 1\n", "cpu99999 1 1 1 1 1 1 1\n", "cpu0 1 1 1 1 1 1 900000000000\n" + "cpu1 1 1 1 900000000000 900000000000 1 1\n",
	} {
		if got, err := CPUsSpent(host(t, statFile, content)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v, %v", content, got, err)
		}
	}
}

func FuzzCPUs(f *testing.F) {
	f.Add("cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 4 100 200 8 16 32 1000 1000\ncpu2 0 0 0 7 0 0 0 0\nintr 5 5\n")
	f.Add("cpu1023 1 1 1 1 1 1 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseCPUs(text)
		if err != nil && !errors.Is(err, ErrMalformed) || len(all) > 1024 || (err == nil) != (len(all) > 0) {
			t.Fatalf("%d CPUs, %v", len(all), err)
		}
		for _, s := range all {
			if s.Busy < 0 || s.Idle < 0 || s.Steal < 0 {
				t.Fatalf("%v", s)
			}
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add("cpu  1 2 4 1000 1000 8 16 1000 1000 1000")
	f.Add("cpu 900000000000 900000000000 0 0 0 0 0")
	f.Fuzz(func(t *testing.T, line string) {
		spent, err := parseStat(line)
		if spent.Busy < 0 || spent.Idle < 0 || spent.Steal < 0 || (err != nil && !errors.Is(err, ErrMalformed)) {
			t.Errorf("%v, %v", spent, err)
		}
	})
}

// TestSupport checks that the encoding can be read back, and that an unknown text means Unknown.
func TestSupport(t *testing.T) {
	for _, want := range []Support{Unknown, Supported, Unsupported} {
		text, err := want.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		got := Support(9)
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Errorf("%s is read back as %v, %v", text, got, err)
		}
	}
	other := Supported
	if err := other.UnmarshalText([]byte("perhaps")); err != nil || other != Unknown {
		t.Errorf("perhaps is read as %v, %v, want unknown", other, err)
	}
	if s := Support(9).String(); s != "Support(9)" {
		t.Error(s)
	}
}

// BenchmarkCPUsSpent256 measures the cost of reading the load of a machine with 256 CPUs, without the kernel's own
// part.
func BenchmarkCPUsSpent256(b *testing.B) {
	var text strings.Builder
	text.WriteString("cpu  9 9 9 9 9 9 9 9 0 0\n")
	for cpu := range 256 {
		fmt.Fprintf(&text, "cpu%d 1234567 89 345678 1234567890 4567 123 4567 0 0 0\n", cpu)
	}
	text.WriteString("intr 5 5 5\n")
	b.ReportAllocs()
	for b.Loop() {
		if all, err := parseCPUs(text.String()); err != nil || len(all) != 256 {
			b.Fatal(len(all), err)
		}
	}
}
