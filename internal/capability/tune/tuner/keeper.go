package tuner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/process"
)

// Keeper starts the process that undoes a record at its deadline.
type Keeper struct {
	// Program is the command line that calls Await: an absolute path, and arguments.
	Program []string
	// Final is the program's exit code for ErrLeft, after which it is not restarted.
	Final int32
	// Systemd is true if systemd runs this host.
	Systemd bool
}

// exits are the exit codes and signals of a program, as systemd encodes them.
type exits struct{ Codes, Signals []int32 }

// Keep starts the program, which waits for the deadline. The program is a transient systemd service, which outlives the
// session of the user, or a detached process. A systemd timer would not do: it stops while the host is suspended, and a
// program that systemd may not execute (noexec, SELinux) would fail only at the deadline.
func (k Keeper) Keep(a Applied) error {
	var service error
	if k.Systemd {
		// A group without a budget for real-time threads refuses the first one.
		for _, realTime := range []bool{true, false} {
			if service = k.startService(a.Deadline, realTime); service == nil {
				return nil
			}
		}
	}
	if err := process.Detach(k.Program); err != nil {
		return errors.Join(service, err)
	}
	return nil
}

// busTimeout bounds the start of the service.
const busTimeout = 5 * time.Second

// unitExists is systemd's error for a name that another unit has.
const unitExists = "org.freedesktop.systemd1.UnitExists"

// startService starts a service whose name is its deadline. A service that an earlier apply left finds nothing to do,
// and a service that exists already enforces this deadline. The service is started once the program is executed.
func (k Keeper) startService(deadline time.Duration, realTime bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), busTimeout)
	defer cancel()
	conn, err := systemd.NewSystemdConnectionContext(ctx)
	if err != nil {
		return fmt.Errorf("connect to systemd: %w", err)
	}
	defer conn.Close()
	name := fmt.Sprintf("berth-tune-%d.service", deadline.Microseconds())
	started := make(chan string, 1)
	_, err = conn.StartTransientUnitContext(ctx, name, "fail", k.service(realTime), started)
	var refused dbus.Error
	if errors.As(err, &refused) && refused.Name == unitExists {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	select {
	case how := <-started:
		if how != "done" {
			// Otherwise systemd would still start it, and the next try could not use its name.
			_, _ = conn.StopUnitContext(ctx, name, "replace", nil)
			return fmt.Errorf("start %s: %w: %s", name, ErrKeeper, how)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("start %s: %w", name, ctx.Err())
	}
}

// service returns the properties of the service. With type exec, the service has started when the program is executed
// (systemd 240 and newer; older versions refuse the type). The OOM killer kills it last. systemd restarts it as often
// as necessary, also after an exit code, because a Go program that gets no memory exits with one. Only values of other
// programs are left for a person. With realTime the service runs before every other thread: the profile may have given
// real-time threads all of a CPU.
func (k Keeper) service(realTime bool) []systemd.Property {
	properties := []systemd.Property{
		systemd.PropDescription("undo the host profile unless it is committed"),
		systemd.PropType("exec"),
		systemd.PropExecStart(k.Program, false), // true would ignore every failure, as "-" in a unit file does
		{Name: "CollectMode", Value: dbus.MakeVariant("inactive-or-failed")},
		{Name: "Restart", Value: dbus.MakeVariant("on-failure")},
		{Name: "RestartUSec", Value: dbus.MakeVariant(uint64(firstRetry.Microseconds()))},
		{Name: "StartLimitIntervalUSec", Value: dbus.MakeVariant(uint64(0))},
		{Name: "RestartPreventExitStatus", Value: dbus.MakeVariant(k.final())},
		{Name: "OOMScoreAdjust", Value: dbus.MakeVariant(int32(-1000))},
		// A profile may give the threads of system.slice another policy.
		{Name: "Slice", Value: dbus.MakeVariant("-.slice")},
	}
	if realTime {
		properties = append(properties,
			systemd.Property{Name: "CPUSchedulingPolicy", Value: dbus.MakeVariant(int32(process.RoundRobin))},
			systemd.Property{Name: "CPUSchedulingPriority", Value: dbus.MakeVariant(int32(process.Highest))})
	}
	return properties
}

// final returns the exits after which the service is not restarted. They include the codes of a program that systemd
// could not execute (systemd.exec(5), "Process Exit Codes"): the caller of Keep then tries another keeper. Lack of
// memory is not included, since it may end.
func (k Keeper) final() exits {
	const first, noMemory, last = 200, 204, 245
	e := exits{Codes: []int32{k.Final}, Signals: []int32{}}
	for code := int32(first); code <= last; code++ {
		if code != noMemory {
			e.Codes = append(e.Codes, code)
		}
	}
	return e
}

const (
	// pause is the time between two checks of the clock.
	pause = 200 * time.Millisecond
	// firstRetry and lastRetry are the first and the longest pause before a failed undo is tried again. The pause
	// doubles.
	firstRetry, lastRetry = time.Second, time.Minute
)

// Await waits until there is nothing to commit or undo. It undoes what is due, and returns when the record is committed
// or gone. Another command may lock the directory: an apply under way seems due but holds its lock, and Await waits for
// the release. Values that a rollback left wait for the deadline: the user is there, and the next command finds the
// directory unlocked. Await retries an undo that the kernel or the disk refuses, and a record that cannot be read,
// without limit. From a damaged journal it restores what can be read. It returns the notes of Open. The error is that
// of the context, ErrLeft if only values of other programs are left, or journal.ErrDamaged.
func Await(ctx context.Context, h Host) ([]string, error) {
	h.Salvage, h.made = true, h.Kinds()
	retry := firstRetry
	var kept []string // notes of earlier tries about a damaged journal: once it is set aside, no later try finds it
	var damaged error
	for {
		wait := pause
		notes, how, err := attend(h)
		switch found := errors.Is(err, journal.ErrDamaged); {
		case how == over && found:
			return notes, err
		case how == over:
			return append(kept, notes...), errors.Join(damaged, err)
		case found:
			kept, damaged = notes, err
		}
		switch how {
		case refused:
			wait, retry = retry, min(2*retry, lastRetry)
		case busy:
			wait, retry = 0, firstRetry
		case early, starved:
			retry = firstRetry
		}
		if err := rest(ctx, h.Dir, wait, untilDeadline(h)); err != nil {
			return nil, err
		}
	}
}

// attend reads the record once, and lets Open undo what is due. If nothing is to be undone but another command holds
// the lock, attend returns busy: a comparison applies its profile again and again.
func attend(h Host) (notes []string, how end, err error) {
	a, is, err := Load(h.Dir)
	switch {
	case err != nil:
		return nil, refused, err
	case !is || a.Phase == Committed || !a.Stands(h.Boot):
		_, held, err := journal.Holder(h.Dir)
		if held {
			return nil, busy, nil
		}
		return nil, over, err
	case !a.awaited(h.Boot, h.Boottime()):
		return nil, early, nil
	}
	return finish(h, a)
}

// untilDeadline returns how long a command may go on, 0 without a coming deadline.
func untilDeadline(h Host) time.Duration {
	a, is, err := Load(h.Dir)
	if err != nil || !is || !a.limited(h.Boot) {
		return 0
	}
	return max(a.Deadline-h.Boottime(), pause)
}

// limited reports whether a running command has to end by the deadline.
func (a Applied) limited(boot string) bool {
	return a.Stands(boot) && a.Phase != Committed && a.Deadline > 0
}

// rest waits for a time. If wait is 0, it waits until the directory is unlocked or the limit, if any, is over. It does
// not read the clock then, because that would disturb a measurement.
func rest(ctx context.Context, dir string, wait, limit time.Duration) error {
	if wait == 0 {
		within := ctx
		if limit > 0 {
			var cancel context.CancelFunc
			within, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		err := journal.Released(within, dir)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if within.Err() != nil {
			return nil
		}
		wait = pause
	}
	select {
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller's own
	case <-time.After(wait):
		return nil
	}
}

// awaited reports whether the record is due for a process that waits for its deadline.
func (a Applied) awaited(boot string, now time.Duration) bool {
	return a.Due(boot, now) && (a.Phase != Undoing || now >= a.Deadline)
}

// end tells how an undo at the deadline ended.
type end int

const (
	busy    end = iota // Another command holds the lock.
	refused            // Something could not be restored or read; another try may succeed.
	over               // There is nothing left to do here.
	early              // The deadline is in the future.
	starved            // A command holds the lock past the deadline.
)

// isThisProgram reports whether a process runs this program, or ends. The number may be from another pid namespace. It
// checks every thread: the first thread of a killed process may be gone while others wait for a CPU.
func isThisProgram(pid int) bool {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	threads, err := kernel.ProcessThreads(pid)
	return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(tid int) bool {
		its, err := os.Stat(fmt.Sprintf("/proc/%d/exe", tid))
		return !kernel.ThreadEnds(tid) && (err != nil || !os.SameFile(own, its))
	})
}

// atWork reports whether another command holds the lock. What a process has applied so far may prevent it from ending.
// Past the deadline atWork gives it the priority of its keeper, above all other threads, and continues a stopped
// process of this program.
func atWork(h Host, a Applied) (how end, working bool, err error) {
	pid, held, err := journal.Holder(h.Dir)
	if !held || !a.limited(h.Boot) || h.Boottime() < a.Deadline {
		return busy, held, err
	}
	if pid != os.Getpid() && isThisProgram(pid) { // best effort: it may have ended
		if pid == a.PID {
			_ = process.Prefer(pid)
		}
		_ = process.Continue(pid)
	}
	return starved, true, nil
}

func finish(h Host, a Applied) (notes []string, how end, err error) {
	how, working, err := atWork(h, a)
	switch {
	case working:
		return nil, how, nil
	case err != nil:
		return nil, refused, err
	}
	t, err := Open(h)
	if errors.Is(err, journal.ErrLocked) {
		return nil, busy, nil
	}
	if err != nil {
		return nil, refused, err
	}
	a, is := t.Applied()
	switch {
	case !is || a.Phase == Committed:
		how = over
	case slices.ContainsFunc(t.settled, func(r apply.Restored) bool { return r.Outcome == apply.OutcomeFailed }):
		how = refused
	case a.Phase == Undoing:
		how, err = over, fmt.Errorf("profile %s: %w", a.Profile.Name, ErrLeft)
	}
	if damage := t.journal.Recovery().Damage; damage != nil {
		err = errors.Join(err, damage)
		if how != refused {
			how = over
		}
	}
	return t.Notes(), how, errors.Join(err, t.Close())
}
