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
}

// Keep starts the program, which waits for the deadline: as a transient service of systemd, which
// outlives the session of whoever applies, or as a detached process. A timer of systemd would not
// do: it stands still while the host is suspended, and whether systemd may execute the program at
// all (noexec, SELinux) would come out at the deadline only.
func (k Keeper) Keep(a Applied) error {
	var service error
	if k.Systemd {
		if service = k.startService(a.Deadline); service == nil {
			return nil
		}
	}
	if err := process.Detach(k.Program); err != nil {
		return errors.Join(service, err)
	}
	return nil
}

// busTimeout bounds the start of the service.
const busTimeout = 5 * time.Second

// startService starts a service of the deadline's own name: one that an earlier apply left finds
// nothing to do. It is started once the program is executed.
func (k Keeper) startService(deadline time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), busTimeout)
	defer cancel()
	conn, err := systemd.NewSystemdConnectionContext(ctx)
	if err != nil {
		return fmt.Errorf("connect to systemd: %w", err)
	}
	defer conn.Close()
	name := fmt.Sprintf("berth-tune-%d.service", deadline.Microseconds())
	started := make(chan string, 1)
	if _, err = conn.StartTransientUnitContext(ctx, name, "fail", k.service(), started); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	select {
	case how := <-started:
		if how != "done" {
			return fmt.Errorf("start %s: %w: %s", name, ErrKeeper, how)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("start %s: %w", name, ctx.Err())
	}
}

// service are the properties of the service. Of type exec it has started when the program is
// executed (systemd 240 and newer; an older one refuses the type).
func (k Keeper) service() []systemd.Property {
	return []systemd.Property{
		systemd.PropDescription("undo the host profile unless it is committed"),
		systemd.PropType("exec"),
		systemd.PropExecStart(k.Program, true),
		{Name: "CollectMode", Value: dbus.MakeVariant("inactive-or-failed")},
	}
}

// pause is between two looks at the clock.
const pause = 200 * time.Millisecond

// Await waits until nothing is left to be committed or undone: it undoes what is due, and ends
// when the record is committed or gone. Another command may hold the directory meanwhile: an
// apply under way looks due, and keeps its lock. What a rollback left waits for the deadline: its
// user is there, and the next command finds the directory free. Of a damaged journal goes back what can be
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
		if a.awaited(h.Boot, h.Boottime()) {
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

// awaited says whether the record is due for who waits for its deadline.
func (a Applied) awaited(boot string, now time.Duration) bool {
	return a.Due(boot, now) && (a.Phase != Undoing || now >= a.Deadline)
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
