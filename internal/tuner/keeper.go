package tuner

import (
	"context"
	"errors"
	"fmt"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/process"
)

// Keeper starts what undoes a record at its deadline.
type Keeper struct {
	// Program is the command line that calls Await: an absolute path, and arguments.
	Program []string
	// Systemd says that systemd runs this host.
	Systemd bool
	// Boottime is CLOCK_BOOTTIME.
	Boottime func() time.Duration
}

// Keep starts the program: at the deadline by a transient timer of systemd, which outlives the
// session of whoever applies, or now, as a detached process that waits.
func (k Keeper) Keep(a Applied) error {
	var timer error
	if k.Systemd {
		if timer = k.startTimer(a.Deadline); timer == nil {
			return nil
		}
	}
	if err := process.Detach(k.Program); err != nil {
		return errors.Join(timer, err)
	}
	return nil
}

// busTimeout bounds the start of the timer.
const busTimeout = 5 * time.Second

// startTimer starts a timer of the deadline's own name: one that an earlier apply left finds
// nothing to do.
func (k Keeper) startTimer(deadline time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), busTimeout)
	defer cancel()
	conn, err := systemd.NewSystemdConnectionContext(ctx)
	if err != nil {
		return fmt.Errorf("connect to systemd: %w", err)
	}
	defer conn.Close()
	name := fmt.Sprintf("berth-tune-%d", deadline.Microseconds())
	started := make(chan string, 1)
	_, err = conn.StartTransientUnitAux(ctx, name+".timer", "fail", timerOf(deadline-k.Boottime()), []systemd.PropertyCollection{{
		Name: name + ".service", Properties: k.service(),
	}}, started)
	if err != nil {
		return fmt.Errorf("start %s.timer: %w", name, err)
	}
	select {
	case how := <-started:
		if how != "done" {
			return fmt.Errorf("start %s.timer: %w: %s", name, ErrKeeper, how)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("start %s.timer: %w", name, ctx.Err())
	}
}

// timerOf are the properties of a timer that elapses once.
func timerOf(in time.Duration) []systemd.Property {
	type elapse struct {
		Base string
		USec uint64
	}
	const accuracy = 100 * time.Millisecond
	return []systemd.Property{
		systemd.PropDescription("undo the host profile that was not committed"),
		{Name: "TimersMonotonic", Value: dbus.MakeVariant([]elapse{{"OnActiveSec", uint64(max(in, 0).Microseconds())}})},
		{Name: "AccuracyUSec", Value: dbus.MakeVariant(uint64(accuracy.Microseconds()))},
		{Name: "RemainAfterElapse", Value: dbus.MakeVariant(false)},
	}
}

func (k Keeper) service() []systemd.Property {
	return []systemd.Property{
		systemd.PropDescription("undo the host profile that was not committed"),
		systemd.PropExecStart(k.Program, true),
		{Name: "CollectMode", Value: dbus.MakeVariant("inactive-or-failed")},
	}
}

// pause is between two looks at the clock.
const pause = 200 * time.Millisecond

// Await waits until nothing is left to be committed or undone: it undoes what is due, and ends
// when the record is committed or gone. Another command may hold the directory meanwhile: an
// apply under way looks due, and keeps its lock. Of a damaged journal goes back what can be
// read. What Open says of an undo is returned. The error is that of the context, of the record,
// ErrLeft, or journal.ErrDamaged.
func Await(ctx context.Context, h Host) ([]string, error) {
	h.Salvage = true
	for {
		a, is, err := Load(h.Dir)
		if err != nil {
			return nil, err
		}
		if !is || a.Phase == Committed || !a.Stands(h.Boot) {
			return nil, nil
		}
		if a.Due(h.Boot, h.Boottime()) {
			notes, done, err := finish(h)
			if done || err != nil {
				return notes, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err() //nolint:wrapcheck // the caller's own
		case <-time.After(pause):
		}
	}
}

// finish has Open undo what is due. It is not done where another command works there.
func finish(h Host) (notes []string, done bool, err error) {
	_, held, err := journal.Holder(h.Dir)
	if held || err != nil {
		return nil, false, err
	}
	t, err := Open(h)
	if errors.Is(err, journal.ErrLocked) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	a, is := t.Applied()
	if is && a.Phase == Undoing {
		err = fmt.Errorf("profile %s: %w", a.Profile.Name, ErrLeft)
	}
	err = errors.Join(err, t.journal.Recovery().Damage)
	done = !is || a.Phase == Committed || err != nil
	return t.Notes(), done, errors.Join(err, t.Close())
}
