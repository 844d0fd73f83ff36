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

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/process"
)

// Keeper starts what undoes a record at its deadline.
type Keeper struct {
	// Program is the command line that calls Await: an absolute path, and arguments.
	Program []string
	// Final is its exit code for ErrLeft, after which it is not started again.
	Final int32
	// Systemd says that systemd runs this host.
	Systemd bool
}

// exits are ways in which a program ends, as systemd takes them.
type exits struct{ Codes, Signals []int32 }

// Keep starts the program, which waits for the deadline: as a transient service of systemd, which
// outlives the session of whoever applies, or as a detached process. A timer of systemd would not
// do: it stands still while the host is suspended, and whether systemd may execute the program at
// all (noexec, SELinux) would come out at the deadline only.
func (k Keeper) Keep(a Applied) error {
	var service error
	if k.Systemd {
		// A group without a budget for real-time threads refuses the first.
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

// unitExists is systemd's answer to a name that another unit has.
const unitExists = "org.freedesktop.systemd1.UnitExists"

// startService starts a service of the deadline's own name: one that an earlier apply left finds
// nothing to do, and one that is there keeps this deadline. It is started once the program is
// executed.
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
			// Else systemd goes on to start it, and its name is not to be had for the next try.
			_, _ = conn.StopUnitContext(ctx, name, "replace", nil)
			return fmt.Errorf("start %s: %w: %s", name, ErrKeeper, how)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("start %s: %w", name, ctx.Err())
	}
}

// service are the properties of the service. Of type exec it has started when the program is
// executed (systemd 240 and newer; an older one refuses the type). The kernel kills it last for
// memory, and systemd starts it again for as long as it takes, after an exit code as well: a
// program of Go that the kernel gives no memory exits with one. Only values of other programs are
// left for a person. With realTime it goes before every other thread, since the profile that it
// guards may have given real-time threads all of a CPU.
func (k Keeper) service(realTime bool) []systemd.Property {
	properties := []systemd.Property{
		systemd.PropDescription("undo the host profile unless it is committed"),
		systemd.PropType("exec"),
		systemd.PropExecStart(k.Program, true),
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

// final are the ways to end after which it is not started again. Those of a service that systemd could not execute
// (systemd.exec(5), "Process Exit Codes") are: it has no such keeper, and who asked for it tries another one. For lack
// of memory it may have one later.
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
	// pause is between two looks at the clock.
	pause = 200 * time.Millisecond
	// firstRetry and lastRetry are the first and the longest pause before an undo that failed is
	// tried again; each is twice the one before.
	firstRetry, lastRetry = time.Second, time.Minute
)

// Await waits until nothing is left to be committed or undone: it undoes what is due, and ends
// when the record is committed or gone. Another command may hold the directory meanwhile: an
// apply under way looks due, and keeps its lock; Await waits then until that is given back. What a
// rollback left waits for the deadline: its user is there, and the next command finds the directory
// free. An undo that the kernel or the disk
// refuses is tried again, for as long as it takes, and so is a record that cannot be read. Of a damaged
// journal goes back what can be read. What Open says of an undo is returned. The error is that of the
// context, ErrLeft where only values of other programs are left, or journal.ErrDamaged.
func Await(ctx context.Context, h Host) ([]string, error) {
	h.Salvage, h.made = true, h.Kinds()
	retry := firstRetry
	var kept []string // what the tries before this say of a damaged journal: once it is set aside, no other finds it
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

// attend looks at the record once, and has Open undo what is due. Where none is to be undone while another command
// works there, that may be a comparison, which has the profile again and again.
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

// untilDeadline is how long a command may go on, 0 for one without a deadline ahead.
func untilDeadline(h Host) time.Duration {
	a, is, err := Load(h.Dir)
	if err != nil || !is || !a.limited(h.Boot) {
		return 0
	}
	return max(a.Deadline-h.Boottime(), pause)
}

// limited says whether a command that works there has to end by the deadline.
func (a Applied) limited(boot string) bool {
	return a.Stands(boot) && a.Phase != Committed && a.Deadline > 0
}

// rest waits for a time, or without one until nobody works in the directory, or the limit is over where there is one:
// without a look at the clock, which would cost what is being measured there.
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

// awaited says whether the record is due for who waits for its deadline.
func (a Applied) awaited(boot string, now time.Duration) bool {
	return a.Due(boot, now) && (a.Phase != Undoing || now >= a.Deadline)
}

// end says how an undo at the deadline ended.
type end int

const (
	busy    end = iota // Another command works there.
	refused            // Something could not be put back, or read, that another try may.
	over               // Nothing is left to be done here.
	early              // The deadline is to come.
	starved            // A command works there past the deadline.
)

// isThisProgram says whether a process runs what this one does, or ends. The number may be of another pid namespace. Of a
// process that was killed the first thread may be gone, and others wait for a CPU: any thread answers for it.
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

// atWork says whether another command works there. What a process has applied so far may keep it from its end: past the
// deadline it goes before all other threads, as its keeper does. A command of this program that was stopped goes on.
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

// finish has Open undo what is due.
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
