package vmnode

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-project/berth/test/kernel"
	"github.com/berth-project/berth/test/patience"
)

var (
	// ErrOff reports that the machine is off.
	ErrOff = errors.New("machine is off")
	// ErrOn reports that the machine is already on.
	ErrOn = errors.New("machine is on")
)

// Files in the node's directory.
const (
	ConsoleFile = "console" // Messages of the kernel.
	JournalFile = "journal" // Messages of systemd and all services.
	stateFile   = "node.json"
	lockFile    = "on" // Locked while the machine is on.
	rootImage   = "root.img"
	runImage    = "run.img"
)

const (
	// kubeletPort is the kubelet's port, in the guest and on the host.
	kubeletPort = 10250
	// startLimit bounds the time from power-on to the first command in the guest, in time during which this machine
	// gave it CPU.
	startLimit = 5 * time.Minute
	// stopLimit bounds the time of an orderly shutdown, in the same way.
	stopLimit = 2 * time.Minute
)

// state is the information about a node that another process needs.
type state struct {
	Name, Dir, IP string
	Machine       kernel.Machine
	Kernel        string   // Path of the image.
	Arguments     []string // Of the kernel.
	Token         string
	Detached      bool
	Device        string // The host's device that has the address.
	PID           int    // Of QEMU, at its last start.
}

// Node is one machine. Several goroutines may call its methods, except that the methods which switch it on and off must
// not overlap.
type Node struct{ state state }

// Start makes the node's disks, switches the machine on and waits until it can run commands. If it fails, nothing runs,
// and the console stays in Dir. See [Node.WaitReady].
func Start(ctx context.Context, o Options) (*Node, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := Check(ctx); err != nil {
		return nil, err
	}
	k, err := kernel.Own(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	root, err := image(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	n := &Node{state{
		Name: o.Name, Dir: o.Dir, IP: o.IP, Machine: o.Machine, Kernel: k.Image, Arguments: o.Arguments,
		Token: rand.Text(), Detached: o.Detached,
	}}
	if n.On() {
		return nil, fmt.Errorf("%s: %w", o.Dir, ErrOn)
	}
	if err := o.runDisk(ctx, n.state.Token, n.file(runImage)); err != nil {
		return nil, err
	}
	if err := run(ctx, "cp", "--sparse=always", "--reflink=auto", root, n.file(rootImage)); err != nil {
		return nil, err
	}
	if n.state.Device, err = takeAddress(ctx, o.IP); err != nil {
		return nil, err
	}
	if err := n.Boot(ctx); err != nil {
		return nil, errors.Join(err, n.Remove(context.WithoutCancel(ctx)))
	}
	return n, nil
}

// Open returns the node in a directory, in any state.
func Open(dir string) (*Node, error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, err
	}
	n := &Node{}
	if err := json.Unmarshal(text, &n.state); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", dir, stateFile, err)
	}
	return n, nil
}

// Name returns the node's name.
func (n *Node) Name() string { return n.state.Name }

// Boot switches the machine on, with its existing disks, and waits until it can run commands. If the emulator crashes
// in that time, Boot starts it again, because the guest has done nothing yet.
func (n *Node) Boot(ctx context.Context) error {
	const tries = 3
	for try := 1; ; try++ {
		err := n.boot(ctx)
		if try == tries || !errors.Is(err, kernel.ErrCrashed) {
			return err
		}
		fmt.Fprintln(os.Stderr, "once more:", err)
	}
}

func (n *Node) boot(ctx context.Context) error {
	lock, err := n.lock(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOn, err)
	}
	defer lock.Close() // QEMU has it now.
	pid, ended, err := n.state.start(lock)
	if err != nil {
		return err
	}
	n.state.PID = pid
	text, err := json.MarshalIndent(n.state, "", "  ")
	if err == nil {
		err = os.WriteFile(n.file(stateFile), text, 0o600)
	}
	if err != nil {
		return errors.Join(err, n.Cut())
	}
	lock.Close()
	limited, _, cancel := patience.WithLimit(ctx, startLimit)
	defer cancel()
	err = n.poll(limited, "boot of "+n.state.Name, func(ctx context.Context) error {
		_, err := n.Run(ctx, "true")
		return err
	})
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrOff) && kernel.Crashed(<-ended) {
		err = fmt.Errorf("%w: %w", kernel.ErrCrashed, err)
	}
	return errors.Join(err, n.Cut())
}

// lock acquires the lock that QEMU will hold. A process that checks whether the machine is on holds the lock for an
// instant, hence the retries.
func (n *Node) lock(ctx context.Context) (*os.File, error) {
	for try := 0; ; try++ {
		lock, err := tryLock(n.file(lockFile))
		if err == nil || try == 5 {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// On reports whether the machine is on.
func (n *Node) On() bool {
	lock, err := tryLock(n.file(lockFile))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	lock.Close()
	return false
}

// WaitReady waits until the API server reports the node as Ready in the current boot. Reports from before a power cut
// do not count.
func (n *Node) WaitReady(ctx context.Context, client kubernetes.Interface) error {
	boot, err := n.Run(ctx, "cat /proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	return n.poll(ctx, "node "+n.state.Name, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, n.state.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if node.Status.NodeInfo.BootID != strings.TrimSpace(boot) {
			return errors.New("the kubelet has not reported since the boot")
		}
		return ready(node)
	})
}

// ready returns nil for a node that is Ready, and otherwise the reason.
func ready(node *corev1.Node) error {
	for _, c := range node.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			return nil
		default:
			return fmt.Errorf("not ready: %s: %s", c.Reason, c.Message)
		}
	}
	return errors.New("no condition Ready")
}

// Shutdown shuts the guest down in order, as its administrator would. It returns no error if the machine is already
// off.
func (n *Node) Shutdown(ctx context.Context) error {
	if !n.On() {
		return nil
	}
	if _, err := n.Run(ctx, "systemctl poweroff --no-block"); err != nil {
		return err
	}
	limited, _, cancel := patience.WithLimit(ctx, stopLimit)
	defer cancel()
	return n.off(limited)
}

// Cut cuts the power: data that the guest has not written to its disk is lost. It returns no error if the machine is
// already off.
func (n *Node) Cut() error {
	if !n.On() {
		return nil
	}
	if err := syscall.Kill(n.state.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill QEMU (process %d): %w", n.state.PID, err)
	}
	limited, _, cancel := patience.WithLimit(context.Background(), 30*time.Second)
	defer cancel()
	return n.off(limited)
}

// off waits until the machine is off.
func (n *Node) off(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for n.On() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w\n%s", n.state.Name, context.Cause(ctx), n.tails())
		case <-tick.C:
		}
	}
	return nil
}

// Remove cuts the power and removes disks and address; console and journal stay.
func (n *Node) Remove(ctx context.Context) error {
	err := n.Cut()
	for _, name := range []string{rootImage, runImage, stateFile, lockFile} {
		if removed := os.Remove(n.file(name)); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return errors.Join(err, giveAddress(ctx, n.state.IP, n.state.Device))
}

func (n *Node) file(name string) string { return filepath.Join(n.state.Dir, name) }

// tails returns the last lines of the guest's output.
func (n *Node) tails() string {
	const lines = 30
	var text strings.Builder
	for _, name := range []string{"qemu.log", ConsoleFile, JournalFile} {
		content, err := os.ReadFile(n.file(name))
		if err != nil {
			continue
		}
		all := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(content), "\r", "")), "\n")
		fmt.Fprintf(&text, "%s:\n%s\n", name, strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
	return text.String()
}
