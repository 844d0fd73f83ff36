package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// SchedExt returns the name of the BPF scheduler (sched_ext, Linux 6.12) that schedules all threads of the host, or ""
// without one. Under such a scheduler cpu.max, cpu.weight and cpu.idle have no effect. SchedExt ignores a BPF scheduler
// that schedules only threads that ask for it (switch_all is 0): the kernel schedules all other threads. See
// Documentation/scheduler/sched-ext.rst.
func SchedExt(root *hostfs.Root) (string, error) {
	const dir = "sys/kernel/sched_ext/"
	read := func(name string) (string, error) {
		data, err := root.ReadFile(dir + name)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil // a kernel without sched_ext, or the scheduler just ended
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

// Scheduler remembers which BPF scheduler schedules all threads of the host. The zero value has not checked yet.
type Scheduler struct {
	// Name is the last result of SchedExt.
	Name string
	due  time.Duration // the time of the next check
}

// Look updates Name with SchedExt, at most every ten seconds.
func (s *Scheduler) Look(root *hostfs.Root, now time.Duration) (err error) {
	if now < s.due {
		return nil
	}
	s.due = now + 10*time.Second
	s.Name, err = SchedExt(root)
	return err
}
