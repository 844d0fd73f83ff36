package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// statLine returns /proc/PID/stat of a process with that name and start time.
func statLine(name string, start uint64) string {
	return fmt.Sprintf("77 (%s) S 1 77 77 0 -1 4194560 1189 0 0 0 3 4 0 0 20 0 1 0 %d 9121792 1024 18446744073709551615 0 0 0 0\n", name, start)
}

func TestParseStart(t *testing.T) {
	for _, name := range []string{"sh", "", "a b", "a) S 1 2", "(sd-pam)", ")", "a\nb) R 9 9", "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"} {
		for _, want := range []uint64{0, 345, 1<<64 - 1} {
			if got, err := parseStart(statLine(name, want)); err != nil || got != want {
				t.Errorf("name %q: %d, %v, want %d", name, got, err, want)
			}
		}
	}
	for _, text := range []string{
		"", "77", "77 (sh", "77 (sh)", "77 (sh) S 1 2 3",
		strings.Replace(statLine("sh", 345), " 345 ", " x ", 1),
		strings.Replace(statLine("sh", 345), " 345 ", " -1 ", 1),
		strings.Replace(statLine("sh", 345), " 345 ", " 18446744073709551616 ", 1),
	} {
		if got, err := parseStart(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func FuzzStart(f *testing.F) {
	f.Add(statLine("sh", 345))
	f.Add("77 (sh) S")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseStart(text); err != nil && (got != 0 || !errors.Is(err, ErrMalformed)) {
			t.Errorf("%d, %v", got, err)
		}
		// The field is found for any process name.
		if got, err := parseStart(statLine(text, 345)); err != nil || got != 345 {
			t.Errorf("name %q: %d, %v", text, got, err)
		}
	})
}

func TestProcessStart(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"proc/self/mountinfo": "26 25 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/77/stat":        statLine("we) b", 345),
		"proc/78/stat":        "78 (sh)",
		"proc/79/cgroup":      "0::/\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host := openAt(t, dir)
	if got, err := host.ProcessStart(77); err != nil || got != 345 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := host.ProcessStart(78); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), filepath.Join(dir, "proc/78/stat")) {
		t.Errorf("a short line: %v", err)
	}
	for _, pid := range []int{79, 80, 0, -1} {
		if _, err := host.ProcessStart(pid); !errors.Is(err, ErrNoProcess) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

// TestProcessStartLive checks that the running kernel has the start time in this field: it does not change, and the
// parent's is not later.
func TestProcessStartLive(t *testing.T) {
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	host := &Host{root: root}
	own, err := host.ProcessStart(os.Getpid())
	if err != nil || own == 0 {
		t.Fatalf("%d, %v", own, err)
	}
	again, err := host.ProcessStart(os.Getpid())
	if err != nil || again != own {
		t.Errorf("first %d, then %d, %v", own, again, err)
	}
	if ppid := os.Getppid(); ppid > 0 { // 0 is a parent in another pid namespace
		if parent, err := host.ProcessStart(ppid); err != nil || parent > own {
			t.Errorf("parent %d started at %d, %v, this process at %d", ppid, parent, err, own)
		}
	}
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(uptime))[0], 64)
	if err != nil || float64(own)/100 > seconds+1 {
		t.Errorf("started at %d ticks of a host that is up for %v s, %v", own, seconds, err)
	}
}

func openAt(t *testing.T, dir string) *Host {
	t.Helper()
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	host, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return host
}
