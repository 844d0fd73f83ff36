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

// Up starts the cluster and returns when everything is ready: about half a minute on two CPUs. The programs must have
// been built. Up first removes what a killed cluster left. If a cluster already runs, Up waits until it is ready.
// Progress goes to out. If ctx ends before that, or anything cannot be started, Up removes everything again.
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
		unlock() // The locked file may be gone.
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

// removeRest removes what another cluster left.
func removeRest(ctx context.Context, out io.Writer) error {
	if some, err := remains(); err != nil || !some {
		return err
	}
	fmt.Fprintln(out, "removing what is left of another cluster")
	return down(ctx, io.Discard)
}

// spawn starts the supervisor through a process that ends at once, so that the supervisor has no parent here. The end
// of ctx does not end that process: no command could find a supervisor without its lock.
func spawn(ctx context.Context, program string) error {
	said, err := exec.CommandContext(context.WithoutCancel(ctx), program, "spawn").CombinedOutput()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w: %s", err, said)
	}
	return nil
}

// Spawn starts the supervisor, which is this program with the argument "supervise", in its own session and mount name
// space. It returns when the supervisor has its lock.
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
			text, _ := os.ReadFile(file("progress")) // An empty text adds nothing.
			return fmt.Errorf("%w: %w\n%s", ErrFailed, err, text)
		case <-time.After(lookEvery / 10):
		}
	}
	return nil
}

// follow copies the supervisor's output until the cluster is ready.
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

// claim writes the supervisor's process id into its lock file.
func claim(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	return err
}

// killSupervisor kills a supervisor that has not yet entered a group.
func killSupervisor() {
	text, err := os.ReadFile(file("supervisor.lock"))
	if err != nil || !supervised() {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 && pid != os.Getpid() {
		_ = unix.Kill(pid, unix.SIGKILL) // It may already be gone, as intended.
	}
}

// giveAway gives a file to the user who ran sudo, if any.
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
