package irqbalance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

// Driver is the kind of the targets of this package.
const Driver plan.Driver = "irqbalance"

const (
	sockets = "/run/irqbalance"
	knobBan = "banned-irqs"
	// none is the value of an empty list.
	none = "none"
	// asks begins a request that replaces the list.
	asks = "settings ban irqs "
	// mostAnswered is the longest answer in bytes, and patience the longest wait for it.
	mostAnswered = 1 << 20
	patience     = 5 * time.Second
)

// Longest is the longest value in bytes: irqbalance reads 500 bytes of a request, with a zero at the end.
const Longest = 499 - len(asks)

// Is reports whether a file is the socket of an irqbalance.
func Is(file string) bool { return path.Dir(file) == sockets && path.Ext(file) == ".sock" }

// Target returns the target of the list of the irqbalance that has a socket.
func Target(file string) plan.Target {
	return plan.Target{Driver: Driver, Object: path.Base(file), Knob: knobBan}
}

// Find returns the sockets of all running irqbalances that answer.
func Find(root *hostfs.Root) []string {
	entries, err := root.ReadDir(sockets)
	if err != nil {
		return nil // no irqbalance, or one before version 1.7
	}
	var found []string
	for _, e := range entries {
		if file := path.Join(sockets, e.Name()); Is(file) {
			if _, err := banned(root, e.Name()); err == nil {
				found = append(found, file)
			}
		}
	}
	return found
}

// With returns the present value, and the value that also bans the given interrupts.
func With(root *hostfs.Root, file string, numbers []int) (now, with plan.Value, err error) {
	list, err := banned(root, path.Base(file))
	if err != nil {
		return "", "", err
	}
	return valueOf(list), valueOf(append(numbers, list...)), nil
}

// Values returns what the kind says about its values without a host.
func Values() plan.Kinds { return plan.Kinds{Driver: {Same: same}} }

// Kinds returns the kind of target for the host below root.
func Kinds(root *hostfs.Root) apply.Kinds {
	return apply.Of(Values(), func(call apply.Call) apply.Driver { return &bans{root, call} })
}

func same(_ plan.Target, a, b plan.Value) bool { return a == b }

type bans struct {
	root *hostfs.Root
	call apply.Call
}

// Read returns the list of banned interrupts.
func (b *bans) Read(t plan.Target) (plan.Value, plan.Identity, error) {
	list, err := banned(b.root, t.Object)
	if err != nil {
		return "", "", err
	}
	return valueOf(list), plan.Identity(t.Object), nil
}

// Write replaces the list of banned interrupts and reads it back.
func (b *bans) Write(c plan.Change) (plan.Value, error) {
	if len(c.Value) > Longest {
		return "", fmt.Errorf("irqbalance reads %d bytes of a list, and this one has %d: %w", Longest, len(c.Value), apply.ErrRefused)
	}
	list := string(c.Value)
	if c.Value == none {
		list = "NONE"
	}
	if _, err := ask(b.root, c.Object, asks+list); err != nil {
		return "", err
	}
	b.call.Written(c.Target)
	now, err := banned(b.root, c.Object)
	if err != nil {
		return "", err
	}
	if effective := valueOf(now); effective != c.Value {
		return effective, fmt.Errorf("wrote %q, irqbalance has %q: %w", c.Value, effective, apply.ErrNotEffective)
	}
	return c.Value, nil
}

// Locate implements apply.Locator.
func (b *bans) Locate(t plan.Target, _ plan.Value) string {
	return b.root.Join(path.Join(sockets, t.Object))
}

// valueOf returns a list as a value.
func valueOf(list []int) plan.Value {
	list = slices.Clone(list)
	slices.Sort(list)
	var words []string
	for _, n := range slices.Compact(list) {
		words = append(words, strconv.Itoa(n))
	}
	if len(words) == 0 {
		return none
	}
	return plan.Value(strings.Join(words, " "))
}

// banned asks irqbalance for its list of banned interrupts.
func banned(root *hostfs.Root, socket string) ([]int, error) {
	answer, err := ask(root, socket, "setup")
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(answer, "SLEEP ") {
		return nil, fmt.Errorf("irqbalance at %s: it answers %q, not its setup: %w", socket, answer[:min(len(answer), 80)], errors.ErrUnsupported)
	}
	var list []int
	for _, found := range regexp.MustCompile(`IRQ (\d+) LOAD`).FindAllStringSubmatch(answer, -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			return nil, fmt.Errorf("irqbalance at %s: interrupt %q: %w", socket, found[1], err)
		}
		if n > 0 { // irqbalance reads NONE as 0
			list = append(list, n)
		}
	}
	return list, nil
}

// ask sends a request with the credentials of this process, and returns the answer. The error matches apply.ErrGone if
// the irqbalance has ended.
func ask(root *hostfs.Root, socket, request string) (string, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: root.Join(path.Join(sockets, socket)), Net: "unix"})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return "", fmt.Errorf("irqbalance at %s: %w: %w", socket, apply.ErrGone, err)
	}
	if err != nil {
		return "", fmt.Errorf("irqbalance at %s: %w", socket, err)
	}
	defer conn.Close()
	own := syscall.UnixCredentials(&syscall.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())}) //nolint:gosec // ids of processes and users fit
	err = conn.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, _, err = conn.WriteMsgUnix([]byte(request), own, nil)
	}
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(io.LimitReader(conn, mostAnswered))
	}
	if err != nil && !errors.Is(err, syscall.ECONNRESET) { // irqbalance closes without reading on
		return "", fmt.Errorf("ask irqbalance at %s: %w", socket, err)
	}
	return string(answer), nil
}
