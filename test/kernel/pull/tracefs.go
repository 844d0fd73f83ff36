package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errTracing reports what this host lacks.
var errTracing = errors.New("cannot trace here")

// instance is the name of the trace buffer of a run. It has its own clock, events and filters, so it does not disturb
// other tracers.
const instance = "berth-pull"

// tracer is a trace buffer.
type tracer struct {
	tracefs *os.File
	dir     string
	on      *os.File // Its switch. While it is open nobody can remove the buffer.
}

// events returns the recorded events with their filters. Softirq 7 is load balancing (include/linux/interrupt.h).
func events() map[string]string {
	const sched = "vec == 7"
	return map[string]string{
		"sched/sched_switch": "", "sched/sched_wakeup": "", "sched/sched_wakeup_new": "", "sched/sched_migrate_task": "",
		"irq/softirq_entry": sched, "irq/softirq_exit": sched,
	}
}

// openTracer makes a buffer of so many MiB for all CPUs together, with tracing off.
func openTracer(mib, cpus int) (t *tracer, err error) {
	t = &tracer{}
	if t.tracefs, err = mountTracefs(); err != nil {
		return nil, err
	}
	t.dir = filepath.Join("/proc/self/fd", strconv.Itoa(int(t.tracefs.Fd())), "instances", instance)
	if err := t.make(); err != nil {
		return nil, errors.Join(err, t.tracefs.Close())
	}
	if err := t.setUp(mib << 10 / cpus); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// mountTracefs mounts tracefs invisibly to other processes. The mount disappears with the file, however this process
// ends.
func mountTracefs() (*os.File, error) {
	file, err := fsopen("tracefs")
	switch {
	case errors.Is(err, unix.ENODEV):
		return nil, fmt.Errorf("%w: the kernel has no tracefs (CONFIG_TRACING): %w", errTracing, err)
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("%w: root is needed to mount tracefs, and a kernel that is not locked down: %w", errTracing, err)
	case err != nil:
		return nil, fmt.Errorf("%w: mount tracefs: %w", errTracing, err)
	}
	return file, nil
}

// fsopen returns the root of a file system of that type; see fsopen(2), Linux 5.2.
func fsopen(kind string) (*os.File, error) {
	draft, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(draft)
	if err := unix.FsconfigCreate(draft); err != nil {
		return nil, err
	}
	root, err := unix.Fsmount(draft, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(root), kind), nil
}

// make makes the buffer, in place of one from a killed run.
func (t *tracer) make() error {
	err := os.Mkdir(t.dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if err := os.Remove(t.dir); err != nil {
			return fmt.Errorf("%w: instance %s of tracefs is in use, by another run: %w", errTracing, instance, err)
		}
		err = os.Mkdir(t.dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("%w: make instance %s of tracefs: %w", errTracing, instance, err)
	}
	return nil
}

// setUp turns tracing off and enables the events.
func (t *tracer) setUp(kib int) (err error) {
	if t.on, err = os.OpenFile(filepath.Join(t.dir, "tracing_on"), os.O_WRONLY, 0); err != nil {
		return fmt.Errorf("%w: %w", errTracing, err)
	}
	err = errors.Join(t.turn(false), t.write("trace_clock", "mono"), t.write("buffer_size_kb", strconv.Itoa(kib)))
	for name, filter := range events() {
		dir := filepath.Join("events", name)
		if _, missing := os.Stat(filepath.Join(t.dir, dir)); missing != nil {
			return fmt.Errorf("%w: the kernel has no event %s", errTracing, name)
		}
		if filter != "" {
			err = errors.Join(err, t.write(filepath.Join(dir, "filter"), filter))
		}
		err = errors.Join(err, t.write(filepath.Join(dir, "enable"), "1"))
	}
	return err
}

func (t *tracer) write(name, text string) error {
	if err := os.WriteFile(filepath.Join(t.dir, name), []byte(text), 0); err != nil {
		return fmt.Errorf("tracefs: write %q: %w", text, err)
	}
	return nil
}

// turn turns recording on or off.
func (t *tracer) turn(on bool) error {
	text := "0"
	if on {
		text = "1"
	}
	if _, err := t.on.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("tracefs: write %q: %w", text, err)
	}
	return nil
}

// drain passes on each recorded event, in order, and empties the buffer. Recording must be off.
func (t *tracer) drain(take func(Event)) error {
	if err := t.lost(); err != nil {
		return err
	}
	file, err := os.Open(filepath.Join(t.dir, "trace"))
	if err != nil {
		return fmt.Errorf("tracefs: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		e, ok, err := parse(lines.Bytes())
		if err != nil {
			return err
		}
		if ok {
			take(e)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("tracefs: read the trace: %w", err)
	}
	return t.write("trace", "") // Opening it with O_TRUNC empties the buffer.
}

// lost returns an error if the buffer of a CPU was too small.
func (t *tracer) lost() error {
	all, err := filepath.Glob(filepath.Join(t.dir, "per_cpu", "cpu*", "stats"))
	if err != nil || len(all) == 0 {
		return fmt.Errorf("%w: no per_cpu/cpu*/stats: %w", errTracing, err)
	}
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("tracefs: %w", err)
		}
		if err := lostIn(string(text)); err != nil {
			return fmt.Errorf("%s: %w; give more --buffer", filepath.Base(filepath.Dir(name)), err)
		}
	}
	return nil
}

// lostIn checks a file stats.
func lostIn(stats string) error {
	for line := range strings.Lines(stats) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "overrun", "commit overrun", "dropped events":
			if value != "0" {
				return fmt.Errorf("%w: %s %s", errLost, name, value)
			}
		}
	}
	return nil
}

// close removes the buffer, so that tracefs is as it was.
func (t *tracer) close() error {
	var err error
	if t.on != nil {
		err = t.on.Close()
	}
	if removing := os.Remove(t.dir); removing != nil {
		err = errors.Join(err, fmt.Errorf("tracefs: remove instance %s: %w", instance, removing))
	}
	return errors.Join(err, t.tracefs.Close())
}
