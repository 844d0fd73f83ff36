package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/driver/irqbalance"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/test/kernel"
	"github.com/berth-project/berth/test/patience"
)

// Variables that the tests pass to the balancer: its tree and its program.
const (
	balancerDir     = "BERTH_TEST_BALANCER_DIR"
	balancerProgram = "BERTH_TEST_BALANCER_PROGRAM"
)

// balancer executes irqbalance in its own mount namespace. Its interrupts and its socket directory come from a tree.
func balancer() {
	dir := os.Getenv(balancerDir)
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount(filepath.Join(dir, "proc/irq"), "/proc/irq", "", unix.MS_BIND, ""),
		unix.Mount("none", "/run", "tmpfs", 0, ""),
		os.Mkdir("/run/irqbalance", 0o755),
		unix.Mount(filepath.Join(dir, "run/irqbalance"), "/run/irqbalance", "", unix.MS_BIND, ""),
	)
	if err == nil {
		err = syscall.Exec(os.Getenv(balancerProgram), []string{"irqbalance", "--foreground", "-t", "1"}, os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// unpackBalancer downloads Debian's package and unpacks the program into a directory. Installing the package would
// start the service. A mirror that does not answer fails the download.
func unpackBalancer(ctx context.Context, into string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	in := func(argv ...string) error {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.WaitDelay = into, 5*time.Second // its children may hold the output
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w\n%s", argv, errors.Join(err, context.Cause(ctx)), out)
		}
		return nil
	}
	if err := in("apt-get", "download", "-q", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30", "irqbalance"); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(into, "*.deb"))
	if err != nil {
		return fmt.Errorf("look for the package: %w", err)
	}
	if len(packages) != 1 {
		return fmt.Errorf("apt-get download irqbalance: left %d packages, not 1", len(packages))
	}
	if err := in("dpkg-deb", "-x", packages[0], "package"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(into, "package/usr/sbin/irqbalance"), filepath.Join(into, "irqbalance"))
}

// balances starts the real irqbalance on the interrupts of a tree.
func balances(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("irqbalance answers root only; make verify-net runs it as root")
	}
	program, err := exec.LookPath("irqbalance")
	if err != nil {
		program, err = kernel.Cached("programs", "irqbalance", "irqbalance", func(into string) error { return unpackBalancer(t.Context(), into) })
	}
	if err != nil {
		t.Fatalf("no irqbalance: install it, or run apt-get update: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "run/irqbalance"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Args = []string{"balancer"}
	cmd.Env = append(os.Environ(), balancerDir+"="+dir, balancerProgram+"="+program)
	cmd.Stderr = t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	write(t, dir, fmt.Sprintf("proc/%d/comm", cmd.Process.Pid), "irqbalance\n")
}

// ban makes an irqbalance leave interrupts alone, as irqbalance-ui does.
func ban(t *testing.T, socket, list string) {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	own := syscall.UnixCredentials(&syscall.Ucred{Pid: int32(os.Getpid())})
	if _, _, err := conn.WriteMsgUnix([]byte("settings ban irqs "+list), own, nil); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, conn) // until it has read the message
}

// TestTuneBansWithIrqbalance: a profile that sets interrupts bans them in a running irqbalance, in addition to earlier
// bans. A rollback restores the list. A restarted irqbalance has no list to restore.
func TestTuneBansWithIrqbalance(t *testing.T) {
	dir := bigHost(t, 4)
	write(t, dir, "proc/sys/kernel/random/boot_id", "one\n")
	write(t, dir, "p.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {settings: {irq.affinity: 0-1}}\n")
	balances(t, dir)
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	var socket string
	err = patience.Until(t.Context(), 20*time.Millisecond, func() string {
		if found := irqbalance.Find(root); len(found) == 1 {
			socket = found[0]
			return ""
		}
		return "no irqbalance answers"
	})
	if err != nil {
		t.Fatal(err)
	}
	banned := func(want string) {
		t.Helper()
		if now, _, err := irqbalance.With(root, socket, nil); err != nil || string(now) != want {
			t.Errorf("irqbalance leaves %q alone, want %q, %v", now, want, err)
		}
	}
	ban(t, root.Join(socket), "7 3") // an administrator's
	affinity := filepath.Join(dir, "proc/irq/2/smp_affinity_list")
	banned("3 7")
	run := func(args ...string) string {
		t.Helper()
		code, out, errs := berthRun(t, append([]string{"tune", args[0], "--root", dir}, args[1:]...)...)
		if code != 0 {
			t.Fatalf("%q: exit %d, %s", args, code, errs)
		}
		return out
	}
	for range 2 { // the second apply finds everything in effect
		if out := run("apply", filepath.Join(dir, "p.yaml")); !strings.Contains(out, "ban of irqbalance") {
			t.Error(out)
		}
		banned("1 2 3 4 7")
		if content(t, affinity) != "0-1" {
			t.Errorf("the interrupt is on %s", content(t, affinity))
		}
	}
	run("verify")
	if out := run("rollback"); strings.Index(out, "irqbalance") < strings.LastIndex(out, "smp_affinity_list") || !strings.Contains(out, "smp_affinity_list") {
		t.Errorf("irqbalance is to move the interrupts again when they are back:\n%s", out)
	}
	banned("3 7")
	if content(t, affinity) != "0-3" {
		t.Errorf("the interrupt is on %s", content(t, affinity))
	}

	run("apply", filepath.Join(dir, "p.yaml"))
	run("commit")
	if err := os.Remove(root.Join(socket)); err != nil { // as at its end
		t.Fatal(err)
	}
	run("rollback")
}
