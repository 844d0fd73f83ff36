package kernel

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestARM64 runs the arm64 program in an emulator. It must print the same bytes and end with the same exit code as the
// amd64 program, for all recorded machines. Floating-point numbers could differ: on arm64 the compiler fuses a
// multiplication with an addition, and rounds once. Each command must print a result: two equal refusals, as of a flag
// that has another name now, would compare nothing.
func TestARM64(t *testing.T) {
	if !all() {
		t.Skip("builds and emulates a program of another processor, which takes minutes; runs in: make verify-kernels")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("needs a processor that runs the other program by itself; runs in: make verify-kernels on amd64")
	}
	if err := toInstall(absent(arm64Needs())); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("BERTH_VM") == "require" {
			t.Fatal(err)
		}
		t.Skipf("%v; runs in: make verify-kernels", err)
	}
	source, dir := moduleRoot(t), t.TempDir()
	native, emulated := filepath.Join(dir, "amd64", "berth"), filepath.Join(dir, "arm64", "berth")
	must(t, Compile(t.Context(), source, native, "build", "./cmd/berth"))
	must(t, compileFor(t.Context(), "arm64", source, "build", "-o", emulated, "./cmd/berth"))

	version := []string{"version", "-o", "json"}
	said := ended(t, native, version...)
	want := said
	want.Out = strings.ReplaceAll(said.Out, `"linux/amd64"`, `"linux/arm64"`)
	if got := ended(t, emulator, append([]string{emulated}, version...)...); got != want || want == said {
		t.Errorf("berth version -o json prints\n%+v\nand for amd64\n%+v", got, said)
	}
	for _, args := range arm64Commands(t, source) {
		want := ended(t, native, args...)
		if want.Code < 0 || want.Code > 1 || want.Out == "" {
			t.Errorf("berth %s ends without a result: %+v", strings.Join(args, " "), want)
		}
		if diff := cmp.Diff(want, ended(t, emulator, append([]string{emulated}, args...)...)); diff != "" {
			t.Errorf("berth %s (-amd64 +arm64):\n%s", strings.Join(args, " "), diff)
		}
	}
}

// arm64Commands returns commands that read only files of the tree: of each recorded machine its topology, a placement,
// and pods on it, and the clusters of package simulate.
func arm64Commands(t *testing.T, source string) [][]string {
	t.Helper()
	machines, err := filepath.Glob(filepath.Join(source, "testdata/machines/*.txtar"))
	must(t, err)
	if len(machines) < 10 {
		t.Fatalf("machines: %q", machines)
	}
	pods := filepath.Join(source, "internal/cli/testdata/pods.yaml")
	var all [][]string
	for _, machine := range machines {
		all = append(all,
			[]string{"topology", "--root", machine, "-o", "json"},
			[]string{"topology", "--root", machine},
			[]string{"place", "--cpus", "2", "--whole-machine", "--root", machine, "-o", "json"}, // one has two CPUs
			[]string{"simulate", "-f", machine, "-f", pods, "-o", "json"},
		)
	}
	clusters := filepath.Join(source, "internal/scheduler/simulate/testdata")
	for _, name := range []string{"live", "pending", "seeds"} {
		files := []string{"simulate", "-f", filepath.Join(clusters, "nodes.yaml"), "-f", filepath.Join(clusters, name)}
		all = append(all, files, append(append([]string{}, files...), "-o", "json"))
	}
	return all
}

// ending is how a program ended: its output, its complaints and its exit code.
type ending struct {
	Out, Complaint string
	Code           int // -1 after a signal
}

// ended runs a program to its end.
func ended(t *testing.T, program string, args ...string) ending {
	t.Helper()
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); !exited {
			t.Fatalf("%s: %v", cmd, err)
		}
	}
	return ending{out.String(), complaint.String(), cmd.ProcessState.ExitCode()}
}
