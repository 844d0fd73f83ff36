package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/hostfs"
)

// SchedExt returns the name of the BPF scheduler (sched_ext, Linux 6.12) that has all threads of
// the host, "" for none: neither cpu.max nor cpu.weight nor cpu.idle holds under it. One that has only the
// threads that ask for it (switch_all is 0) leaves all others to the kernel. See
// Documentation/scheduler/sched-ext.rst.
func SchedExt(root *hostfs.Root) (string, error) {
	const dir = "sys/kernel/sched_ext/"
	read := func(name string) (string, error) {
		data, err := root.ReadFile(dir + name)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil // a kernel without it, or a moment later
		}
		if err != nil {
			return "", fmt.Errorf("sched_ext: %w", err)
		}
		return strings.TrimSpace(string(data)), nil
	}
	state, err := read("state")
	if err != nil || state != "enabled" {
		return "", err
	}
	all, err := read("switch_all")
	if err != nil || all == "0" {
		return "", err
	}
	name, err := read("root/ops")
	if err != nil || name == "" {
		name = "without a name"
	}
	return name, err
}

// Scheduler follows which BPF scheduler has all threads of the host. The zero value has not looked
// yet.
type Scheduler struct {
	// Name is what SchedExt returned last.
	Name string
	due  time.Duration // the next look
}

// Look looks which one there is, every ten seconds.
func (s *Scheduler) Look(root *hostfs.Root, now time.Duration) (err error) {
	if now < s.due {
		return nil
	}
	s.due = now + 10*time.Second
	s.Name, err = SchedExt(root)
	return err
}
