package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/test/cluster"
)

// Up starts the cluster and returns when everything is ready: about half a minute on two CPUs.
// The programs must have been built. What is left of a cluster that was killed is removed
// first; where one runs already, Up waits until it is ready. Progress goes to out. When ctx
// ends before, or anything cannot be started, everything is removed again.
func Up(ctx context.Context, out io.Writer) error {
	if err := check(); err != nil {
		return err
	}
	programs, err := cluster.Find()
	if err != nil {
		return err
	}
	unlock, err := lockDir()
	if err != nil {
		return err
	}
	defer func() { unlock() }()
	if supervised() && exists(file("ready")) {
		fmt.Fprintln(out, "the cluster is up already")
		return nil
	}
	if !supervised() {
		if err := removeRest(ctx, out); err != nil {
			return err
		}
		unlock() // The file it was on may be gone.
		if unlock, err = lockDir(); err != nil {
			return err
		}
		if err := spawn(ctx, programs.LocalCluster); err != nil {
			return errors.Join(err, down(context.WithoutCancel(ctx), io.Discard))
		}
	}
	if err := follow(ctx, out); err != nil {
		return errors.Join(err, down(context.WithoutCancel(ctx), out))
	}
	return nil
}

// removeRest removes what another cluster has left.
func removeRest(ctx context.Context, out io.Writer) error {
	if some, err := remains(); err != nil || !some {
		return err
	}
	fmt.Fprintln(out, "removing what is left of another cluster")
	return down(ctx, io.Discard)
}

// spawn starts the supervisor by a process that ends at once: the supervisor has no parent here.
// That process is not ended with ctx: a supervisor without its lock is one that no command finds.
func spawn(ctx context.Context, program string) error {
	said, err := exec.CommandContext(context.WithoutCancel(ctx), program, "spawn").CombinedOutput()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w: %s", err, said)
	}
	return nil
}

// Spawn starts the supervisor, which is this program with the argument "supervise", in a
// session and a mount name space of its own, and returns when it has its lock.
func Spawn() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	progress, err := os.OpenFile(file("progress"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer progress.Close()
	cmd := exec.Command(program, "supervise") // Not CommandContext: it outlives this process.
	cmd.Dir, cmd.Stdout, cmd.Stderr = Dir, progress, progress
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !supervised() {
		select {
		case err := <-ended:
			text, _ := os.ReadFile(file("progress")) // An empty one says nothing more.
			return fmt.Errorf("%w: %w\n%s", ErrFailed, err, text)
		case <-time.After(lookEvery / 10):
		}
	}
	return nil
}

// follow copies the supervisor's lines until the cluster is ready.
func follow(ctx context.Context, out io.Writer) error {
	lines, err := os.Open(file("progress"))
	if err != nil {
		return err
	}
	defer lines.Close()
	for {
		ready, alive := exists(file("ready")), supervised()
		if _, err := io.Copy(out, lines); err != nil {
			return err
		}
		switch {
		case ready:
			return nil
		case !alive:
			return fmt.Errorf("%w to start", ErrFailed)
		case ctx.Err() != nil:
			return fmt.Errorf("start the cluster: %w", ctx.Err())
		}
		pause(ctx, lookEvery)
	}
}

// claim notes the supervisor's process id in its lock.
func claim(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	return err
}

// killSupervisor kills a supervisor that is in no group yet.
func killSupervisor() {
	text, err := os.ReadFile(file("supervisor.lock"))
	if err != nil || !supervised() {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 && pid != os.Getpid() {
		_ = unix.Kill(pid, unix.SIGKILL) // One that is gone already is what we want.
	}
}

// giveAway gives a file to the user who called sudo, if anyone did.
func giveAway(path string) error {
	if os.Getenv("SUDO_UID") == "" {
		return nil
	}
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, err2 := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("who called sudo: %w", err)
	}
	return os.Chown(path, uid, gid)
}
