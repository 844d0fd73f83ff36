package kernel

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/test/kernel/job"
	"github.com/berth-project/berth/test/tree"
)

// TestVM runs every live test in every cell of the matrix.
func TestVM(t *testing.T) {
	kernels := requireKernels(t, all())
	source := moduleRoot(t)
	cases, err := Find(source)
	if err != nil {
		t.Fatal(err)
	}
	matrix := Matrix(all())
	cases = slices.DeleteFunc(cases, func(c Cases) bool {
		return !slices.ContainsFunc(matrix, func(cell Cell) bool { return cell.Takes(c) })
	})
	if !all() {
		if cases, err = less(cases, unsettling()); err != nil {
			t.Fatal(err)
		}
	}
	image := testImage(t, source, cases, matrix[0].Stride)
	for _, cell := range matrix {
		k := kernels[cell.Origin]
		t.Run(cell.Name(k), func(t *testing.T) {
			vm := VM{Machine: twoSockets(), Kernel: k, Layout: cell.Layout, Image: image, Without: cell.Without, Stride: cell.Stride}
			results := boot(t, vm)
			for _, c := range cases {
				if cell.Takes(c) {
					t.Run(c.Package, func(t *testing.T) { judge(t, c, results[c.Package]) })
				}
			}
		})
	}
}

// TestBootArguments runs the live tests of packages that meet boot arguments, on a kernel with isolated CPUs. It boots
// once locked down, with a nohz_full= that names a CPU that the machine does not have, so that the kernel ignores the
// whole argument, and once with a valid one. No other cell has these arguments.
func TestBootArguments(t *testing.T) {
	kernels := requireAll(t)
	source := moduleRoot(t)
	cases, err := Find(source)
	if err != nil {
		t.Fatal(err)
	}
	packages := []string{
		"internal/linux/knob", "internal/linux/bootargs", "internal/engine/driver/irq", "internal/capability/tune/tuner", "internal/capability/tune/drift",
	}
	cases = slices.DeleteFunc(cases, func(c Cases) bool { return !slices.Contains(packages, c.Package) })
	if len(cases) != len(packages) {
		t.Fatalf("%d packages of %d: %v", len(cases), len(packages), cases)
	}
	image := testImage(t, source, cases, stride)
	for name, arguments := range map[string][]string{
		"locked down": {"lockdown=integrity", "nohz_full=2-3,1000", "isolcpus=managed_irq,domain,6-7"},
		"valid":       {"nohz_full=2-3", "isolcpus=managed_irq,domain,6-7"},
	} {
		t.Run(name, func(t *testing.T) {
			results := boot(t, VM{
				Machine: twoSockets(), Kernel: kernels["own"], Layout: "v2", Image: image, Stride: stride, Arguments: arguments,
			})
			for _, c := range cases {
				t.Run(c.Package, func(t *testing.T) { judge(t, c, results[c.Package]) })
			}
		})
	}
}

// TestDeadGuestIsReported boots an image without init: the kernel panics, and the error must contain the kernel's own
// message.
func TestDeadGuestIsReported(t *testing.T) {
	kernels := requireAll(t)
	image := filepath.Join(t.TempDir(), "initramfs")
	var content bytes.Buffer
	if err := NewArchive(&content).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, content.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir()) // for the console, which is not removed
	vm := VM{Machine: twoSockets(), Kernel: kernels["own"], Layout: "v2", Image: image}
	_, err := vm.Run(t.Context())
	if !errors.Is(err, ErrGuest) || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("Run() = %v, want %v with the panic", err, ErrGuest)
	}
}

// TestHungGuestIsReported boots a guest that starts and then writes nothing more. The error must contain the registers
// of its processors, and the kernel's own stacks.
func TestHungGuestIsReported(t *testing.T) {
	kernels := requireAll(t)
	guest, err := NewGuest(t.Context(), moduleRoot(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := guest.Program(t.Context(), "/bin/pause", "./test/kernel/testdata/pause"); err != nil {
		t.Fatal(err)
	}
	guest.Job(job.Job{Name: "pause", Dir: "/", Argv: []string{"/bin/pause"}})
	image, err := guest.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir()) // for the console, which is not removed
	vm := VM{Machine: twoSockets(), Kernel: kernels["distro"], Layout: "v2", Image: image, Quiet: time.Minute}
	results, err := vm.Run(t.Context())
	if !errors.Is(err, ErrGuest) || !errors.Is(err, ErrHung) {
		t.Fatalf("Run() = %v, %v, want %v", results, err, ErrHung)
	}
	if ended := results["pause"].Ended; ended {
		t.Error("the job has ended")
	}
	for _, want := range []string{"CPU#7", "RIP=", "Kernel panic - not syncing: NMI", "console, whole in "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// TestCrashed distinguishes a fault of the emulator from an intended end by a signal or an exit.
func TestCrashed(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]bool{
		"kill -SEGV $$": true, "kill -ABRT $$": true,
		"kill -KILL $$": false, "kill -TERM $$": false, "exit 139": false, "exit 0": false,
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
		err := cmd.Run()
		if got := Crashed(cmd.ProcessState); got != want {
			t.Errorf("%s: %v, %v, want %v", script, err, got, want)
		}
	}
}

// boot runs one cell; results from before a failure still count. An emulator that hangs in its boot is started again
// after a minute. The second boot may take as long as any.
func boot(t *testing.T, vm VM) map[string]job.Result {
	t.Helper()
	start := time.Now()
	first := vm
	first.Boot = time.Minute
	results, err := first.Run(t.Context())
	if slices.ContainsFunc([]error{ErrSilent, ErrCrashed, ErrStalled, ErrHung, ErrReset}, func(known error) bool { return errors.Is(err, known) }) {
		t.Logf("once more: %v", err)
		results, err = vm.Run(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
	t.Logf("booted, tested and powered off in %v", time.Since(start).Round(100*time.Millisecond))
	return results
}

// judge reports one package in one cell, with its output if anything is wrong.
func judge(t *testing.T, want Cases, got job.Result) {
	t.Helper()
	wrong := Judge(want, got)
	for _, w := range wrong {
		t.Error(w)
	}
	if len(wrong) > 0 {
		t.Log(got.Output)
	}
	t.Log(Summary(got))
}

// all reports whether the tests use every kernel and every layout.
func all() bool { return os.Getenv("BERTH_VM_MATRIX") == "all" }

// requireAll returns all kernels, or skips the test if only the single cell runs.
func requireAll(t *testing.T) map[string]Kernel {
	t.Helper()
	if !all() {
		t.Skip("boots a kernel of our own; runs in: make verify-kernels")
	}
	return requireKernels(t, true)
}

// requireKernels returns the distribution's kernel, or all kernels. It skips the test if they are unavailable and not
// required.
func requireKernels(t *testing.T, all bool) map[string]Kernel {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a virtual machine; runs in: make test")
	}
	err := checkBoot()
	if all {
		err = checkPackages(t.Context())
	}
	if err != nil {
		if os.Getenv("CI") != "" || os.Getenv("BERTH_VM") == "require" {
			t.Fatal(err)
		}
		t.Skipf("%v; runs in: make test", err)
	}
	kernels, err := Kernels(t.Context(), os.Stderr, all)
	if err != nil {
		t.Fatal(err)
	}
	return kernels
}

// testImage makes the initramfs with the test binaries of all packages, for cells with this stride.
func testImage(t *testing.T, source string, cases []Cases, stride int) string {
	t.Helper()
	guest, err := NewGuest(t.Context(), source, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if err := guest.Tests(t.Context(), c.Package, c.Tests, stride); err != nil {
			t.Fatal(err)
		}
	}
	image, err := guest.Close()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := tree.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}
