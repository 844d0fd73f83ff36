package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/test/patience"
)

// benchHost returns a host with a profile p that sets the slice to 3 ms, and the arguments that measure the command
// berthed of this test binary.
func benchHost(t *testing.T) (dir, slice string, args []string) {
	t.Helper()
	dir = bigHost(t, 4)
	write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
	write(t, dir, "proc/stat", "cpu  1 0 0 1 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0\n") // no steal time on any machine
	write(t, dir, "proc/vmstat", "numa_local 5\nnuma_other 5\n")
	write(t, dir, "p.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {settings: {fair.slice: 3ms}}\n")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(dir, "berthed")
	if err := os.Symlink(exe, command); err != nil {
		t.Fatal(err)
	}
	slice = filepath.Join(dir, "sys/kernel/debug/sched/base_slice_ns")
	return dir, slice, []string{"tune", "bench", filepath.Join(dir, "p.yaml"), "--root", dir, "--pause", "0s", "--", command}
}

// with inserts flags before the command.
func with(args []string, flags ...string) []string {
	return slices.Insert(slices.Clone(args), slices.Index(args, "--"), flags...)
}

// TestTuneBenchContract: scripts rely on the keys of the JSON. Bench keeps a better profile but not a worse one, and
// the host is unchanged in between.
func TestTuneBenchContract(t *testing.T) {
	dir, slice, args := benchHost(t)
	t.Setenv(reportFlag, "print "+slice)
	bench := func(flags ...string) map[string]any {
		t.Helper()
		code, out, errs := berthRun(t, with(args, append(flags, "-o", "json", "--metric", `slice (\d+)`)...)...)
		var got map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatalf("exit %d, %v, %s", code, err, errs)
		}
		return got
	}
	got := bench("--keep")
	want := []string{"high", "kept", "low", "metric", "pairs", "profile", "ratio", "runs", "seed", "verdict"}
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(got))); d != "" {
		t.Error(d)
	}
	runs, _ := got["runs"].([]any)
	if len(runs) == 0 {
		t.Fatal("no runs")
	}
	run, _ := runs[0].(map[string]any)
	want = []string{"cpuSeconds", "pair", "remoteShare", "seconds", "steal", "switches", "value", "void", "with"}
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(run))); d != "" {
		t.Error(d)
	}
	if got["verdict"] != "worse" || got["kept"] != false || got["metric"] != `slice (\d+)` || strings.TrimSpace(content(t, slice)) != "2800000" {
		t.Errorf("%v, slice %s", got, content(t, slice))
	}
	lines := strings.Split(strings.TrimSpace(content(t, filepath.Join(dir, "var/lib/berth/tune/bench"))), "\n")
	if len(lines) != 1+len(runs) || !strings.Contains(lines[0], `"seed":`) {
		t.Errorf("recorded: %q", lines)
	}

	if got = bench("--better", "higher"); got["verdict"] != "better" || got["kept"] != false || strings.TrimSpace(content(t, slice)) != "2800000" {
		t.Errorf("%v, slice %s", got, content(t, slice))
	}
	got = bench("--better", "higher", "--keep")
	record, is, err := tuner.Load(filepath.Join(dir, "var/lib/berth/tune"))
	if got["kept"] != true || content(t, slice) != "3000000" || err != nil || !is || record.Phase != tuner.Committed {
		t.Errorf("%v, slice %s, record %+v, %v", got, content(t, slice), record, err)
	}
	if code, _, errs := berthRun(t, args...); code != 4 || !strings.Contains(errs, "berth tune rollback") {
		t.Errorf("over what is applied: exit %d, %s", code, errs)
	}
}

// TestTuneBenchRefuses: bench refuses a comparison that it cannot measure, before the first run and without a trace.
func TestTuneBenchRefuses(t *testing.T) {
	dir, slice, args := benchHost(t)
	t.Setenv(reportFlag, "exit 3")
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no command":       {args[:len(args)-2], 2, "-- COMMAND"},
		"no such command":  {append(slices.Clone(args[:len(args)-1]), "/no/such"), 2, "/no/such"},
		"better of a time": {with(args, "--better", "higher"), 2, "--metric"},
		"better":           {with(args, "--better", "more"), 2, "lower, higher"},
		"two groups":       {with(args, "--metric", "(a)(b)"), 2, "one group"},
		"metric":           {with(args, "--metric", "("), 2, "--metric"},
		"for":              {with(args, "--for", "0s"), 2, "--for"},
		"pause":            {with(args, "--pause", "-1s"), 2, "--pause"},
		"command fails":    {args, 1, "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, _, errs := berthRun(t, tt.args...); code != tt.code || !strings.Contains(errs, tt.says) {
				t.Errorf("exit %d, want %d with %q: %s", code, tt.code, tt.says, errs)
			}
			if strings.TrimSpace(content(t, slice)) != "2800000" {
				t.Errorf("slice %s", content(t, slice))
			}
		})
	}
	write(t, dir, "sys/kernel/debug/sched/base_slice_ns", "3000000\n")
	if code, _, errs := berthRun(t, args...); code != 1 || !strings.Contains(errs, "nothing to compare") {
		t.Errorf("a profile that changes nothing: exit %d, %s", code, errs)
	}
	write(t, dir, "sys/kernel/debug/sched/base_slice_ns", "2800000\n")
	write(t, dir, "proc/stat", "cpu0 x\n")
	if code, _, errs := berthRun(t, args...); code != 1 || !strings.Contains(errs, filepath.Join(dir, "proc/stat")) {
		t.Errorf("a host whose steal cannot be read: exit %d, %s", code, errs)
	}
}

// TestTuneBenchLeavesNothing: if the comparison ends during a run with the profile, the value is restored. Ctrl-C
// restores it at once. After a SIGKILL the keeper of the deadline restores it without any further command.
func TestTuneBenchLeavesNothing(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir, slice, args := benchHost(t)
			cmd, said := runsWith(t, args, filepath.Join(dir, "running"), slice)
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("it ended well")
			}
			if sig == syscall.SIGINT && strings.TrimSpace(content(t, slice)) != "2800000" {
				t.Errorf("slice %s after Ctrl-C", content(t, slice))
			}
			if sig == syscall.SIGINT && !strings.Contains(said.String(), "the host is as before") {
				t.Errorf("Ctrl-C says %q", said)
			}
			err := patience.Until(t.Context(), 20*time.Millisecond, func() string {
				_, is, err := tuner.Load(filepath.Join(dir, "var/lib/berth/tune"))
				if err != nil || is {
					return "a record is left"
				}
				if now := strings.TrimSpace(content(t, slice)); now != "2800000" {
					return fmt.Sprintf("slice %q", now)
				}
				return ""
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// runsWith starts a comparison whose command hangs, and waits until it hangs in a run with the profile. If the random
// order begins without the profile, runsWith ends the comparison and starts another. It also returns the text of
// standard error.
func runsWith(t *testing.T, args []string, mark, slice string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	for range 50 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Args = append([]string{"berth"}, args...)
		cmd.Env = append(os.Environ(), reportFlag+"=hang "+mark)
		said := &strings.Builder{}
		cmd.Stderr = io.MultiWriter(t.Output(), said)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		err := patience.Until(t.Context(), 10*time.Millisecond, func() string {
			if _, err := os.Stat(mark); err != nil {
				return "the command does not run yet"
			}
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
		if content(t, slice) == "3000000" {
			return cmd, said
		}
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the coin never said with the profile first")
	return nil, nil
}
