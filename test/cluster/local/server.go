package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/test/cluster/controlplane"
)

// server is a child process of the supervisor.
type server struct {
	name string
	argv []string
	file string // A file, such as a socket, that exists when the server is ready; empty for none.
}

// lookEvery is the interval of the supervisor's checks.
const lookEvery = 100 * time.Millisecond

// keep starts a server and restarts it whenever it ends, unless it is held, until ctx ends. It calls first with the
// outcome of the first start.
func (s server) keep(ctx context.Context, first func(error)) {
	var report sync.Once
	for ctx.Err() == nil {
		if held(s.name) {
			pause(ctx, lookEvery)
			continue
		}
		child, err := controlplane.StartChild(file("logs"), s.name, s.argv...)
		if err == nil {
			err = writePID(s.name, child.PID())
		}
		if err == nil {
			err = s.ready(ctx, child)
		}
		report.Do(func() { first(err) })
		if child != nil {
			select {
			case <-ctx.Done():
				_ = child.Kill() // It dies with this process in any case.
			case <-child.Done():
			}
		}
		pause(ctx, time.Second)
	}
	report.Do(func() { first(ctx.Err()) })
}

// ready waits for the server's file, if it has one.
func (s server) ready(ctx context.Context, child *controlplane.Child) error {
	for s.file != "" && !exists(s.file) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-child.Done():
			return child.Alive()
		case <-time.After(lookEvery):
		}
	}
	return child.Alive()
}

// keepPlane does the work of keep for etcd and kube-apiserver.
func keepPlane(ctx context.Context, plane *controlplane.ControlPlane) {
	for ctx.Err() == nil {
		etcd, api := plane.PIDs()
		if plane.Alive() != nil && !held("etcd") && !held("kube-apiserver") {
			_ = plane.Revive(ctx) // The next round tries again.
			etcd, api = plane.PIDs()
		}
		_ = errors.Join(writePID("etcd", etcd), writePID("kube-apiserver", api)) // As above.
		pause(ctx, lookEvery)
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func pidFile(name string) string  { return file("pids", name) }
func holdFile(name string) string { return file("hold", name) }

// held reports whether a server has to stay down.
func held(name string) bool { return exists(holdFile(name)) }

// writePID replaces the file atomically, so that a reader never sees a partial number.
func writePID(name string, pid int) error {
	text := strconv.Itoa(pid)
	if old, err := os.ReadFile(pidFile(name)); err == nil && string(old) == text {
		return nil
	}
	draft := pidFile("." + name)
	if err := os.WriteFile(draft, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, pidFile(name))
}

// Servers returns the names that PID, Stop and Start accept.
func Servers() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "images", "containerd", "kubelet", "kube-proxy", "berth-scheduler"}
}

// PID returns the process id of a running server, or ErrNotUp. The process is the leader of its group.
func (c *Cluster) PID(name string) (int, error) {
	text, err := os.ReadFile(pidFile(name))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, ErrNotUp)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil || !runs(pid, name) {
		return 0, fmt.Errorf("%s: %w", name, ErrNotUp)
	}
	return pid, nil
}

// runs reports whether a process is the server of that name, because the kernel may have reused the process id.
func runs(pid int, name string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil || strings.Contains(string(stat), ") Z ") {
		return false
	}
	exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	return err == nil && strings.HasPrefix(filepath.Base(exe), name)
}

// Stop kills a server with SIGKILL. The server stays down until Start, also if it did not run.
func (c *Cluster) Stop(ctx context.Context, name string) error {
	if err := os.WriteFile(holdFile(name), nil, 0o644); err != nil {
		return fmt.Errorf("hold %s: %w", name, err)
	}
	for ctx.Err() == nil {
		pid, err := c.PID(name)
		if errors.Is(err, ErrNotUp) {
			return nil
		}
		if err := unix.Kill(-pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill %s (process group %d): %w", name, pid, err)
		}
		pause(ctx, lookEvery)
	}
	return fmt.Errorf("stop %s: %w", name, ctx.Err())
}

// Start restarts a stopped server and returns when its process exists. The server may need more time until it answers.
func (c *Cluster) Start(ctx context.Context, name string) error {
	if err := os.Remove(holdFile(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("start %s: %w", name, err)
	}
	for ctx.Err() == nil {
		if _, err := c.PID(name); err == nil {
			return nil
		}
		pause(ctx, lookEvery)
	}
	return fmt.Errorf("start %s: %w", name, ctx.Err())
}

// Log returns the path of a server's log.
func (c *Cluster) Log(name string) string {
	if name == "etcd" || name == "kube-apiserver" {
		return file("plane", name+".log")
	}
	return file("logs", name+".log")
}
