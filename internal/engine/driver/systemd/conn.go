package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// busTimeout bounds one call to systemd, also the connection. At the beginning of a boot systemd is busy for longer, and
// nothing else waits for a Conn then (NewPatient).
const (
	busTimeout = 2 * time.Second
	bootWait   = 10 * time.Second
)

// bus is the part of a connection to systemd that a Conn uses.
type bus interface {
	GetAllPropertiesContext(ctx context.Context, unit string) (map[string]any, error)
	SetUnitPropertiesContext(ctx context.Context, name string, runtime bool, properties ...sd.Property) error
	Close()
}

// Conn sets CPUs and memory nodes of units as their properties, until the next boot. It connects at the first call,
// and again after a failed call. It is safe for concurrent use.
type Conn struct {
	dial func() (bus, error)
	// longest bounds one call, busTimeout if it is 0.
	longest time.Duration

	mu  sync.Mutex
	bus bus
}

// Runs reports whether systemd manages this host, by the test of sd_booted(3).
func Runs() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// Find returns the access to systemd, nil if systemd does not run.
func Find() *Later {
	if !Runs() {
		return nil
	}
	return NewLater(New())
}

// New returns a Conn that is not connected yet.
func New() *Conn { return &Conn{dial: func() (bus, error) { return dial(busTimeout) }} }

// NewPatient returns a Conn as New does, whose calls wait longer for systemd: it is for the beginning of a boot.
func NewPatient() *Conn {
	return &Conn{dial: func() (bus, error) { return dial(bootWait) }, longest: bootWait}
}

// dial connects within a time. A connection ends with its context, so the context must outlive the call.
func dial(within time.Duration) (bus, error) {
	ctx, cancel := context.WithCancel(context.Background())
	late := time.AfterFunc(within, cancel)
	conn, err := sd.NewSystemdConnectionContext(ctx)
	if err == nil && late.Stop() {
		return lasting{conn, cancel}, nil
	}
	cancel()
	if err == nil {
		conn.Close()
		err = context.DeadlineExceeded
	}
	return nil, fmt.Errorf("connect: %w", err)
}

// lasting is a connection with its context.
type lasting struct {
	*sd.Conn
	cancel context.CancelFunc
}

// Close closes the connection.
func (l lasting) Close() {
	l.Conn.Close()
	l.cancel()
}

// SetList implements cgroupfile.Units: AllowedCPUs for cgroup.KnobCPUs and AllowedMemoryNodes for cgroup.KnobMems,
// empty for cgroup.Inherit. systemd writes the file before it answers, enables the controller in the groups above if
// necessary, and writes the value again at each daemon-reload. After an empty list the old list stays in the file, and
// an empty drop-in stays below /run/systemd/system.control. The errors are D-Bus errors, with the unit, and
// cgroup.ErrMalformed.
func (s *Conn) SetList(unit string, k cgroup.Knob, v cgroup.Value) error {
	set, _, err := v.List()
	if err != nil {
		return fmt.Errorf("unit %s: %w", unit, err)
	}
	return s.set(unit, sd.Property{Name: propertyOf(k), Value: dbus.MakeVariant(bytesOf(set))})
}

// weightUnset and weightIdle are special values of CPUWeight (CGROUP_WEIGHT_INVALID and CGROUP_WEIGHT_IDLE in systemd's
// source; the second since version 252).
const (
	weightUnset uint64 = math.MaxUint64
	weightIdle  uint64 = 0
)

// SetWeight implements cgroupfile.Weights through CPUWeight, a property of cgroup v2; for cgroup.Idle systemd writes
// cpu.idle. The default weight unsets CPUWeight. The errors are D-Bus errors, with the unit, cgroup.ErrMalformed, and
// cgroupfile.ErrNoIdle if systemd is too old for an idle unit.
func (s *Conn) SetWeight(unit string, v cgroup.Value) error {
	n, version, err := v.Weight()
	if err == nil && version == 1 {
		err = fmt.Errorf("value %q of cgroup v1: %w", string(v), cgroup.ErrMalformed)
	}
	if err != nil {
		return fmt.Errorf("unit %s: %w", unit, err)
	}
	switch v {
	case cgroup.Idle:
		n = weightIdle
	case cgroup.DefaultWeight:
		n = weightUnset
	}
	err = s.set(unit, sd.Property{Name: "CPUWeight", Value: dbus.MakeVariant(n)})
	var refused dbus.Error
	if v == cgroup.Idle && errors.As(err, &refused) && refused.Name == invalidArgs {
		return fmt.Errorf("%w: %w", cgroupfile.ErrNoIdle, err)
	}
	return err
}

// invalidArgs is the D-Bus name of systemd's error for a value that a property cannot have (bus_cgroup_set_boundary in
// its source).
const invalidArgs = "org.freedesktop.DBus.Error.InvalidArgs"

// set sets properties of a unit until the next boot.
func (s *Conn) set(unit string, properties ...sd.Property) error {
	err := s.call(func(ctx context.Context, b bus) error {
		return b.SetUnitPropertiesContext(ctx, unit, true, properties...)
	})
	if err != nil {
		return fmt.Errorf("set %s of unit %s to %s: %w", properties[0].Name, unit, properties[0].Value, err)
	}
	return nil
}

// call makes one call, and connects first if necessary. After a failed call it closes the connection. The error matches
// cgroupfile.ErrNoUnits if systemd cannot be reached or did not answer in time.
func (s *Conn) call(do func(context.Context, bus) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(s.longest, busTimeout))
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bus == nil {
		b, err := s.dial()
		if err != nil {
			return fmt.Errorf("%w: %w", cgroupfile.ErrNoUnits, err)
		}
		s.bus = b
	}
	err := do(ctx, s.bus)
	if err != nil {
		s.bus.Close()
		s.bus = nil
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", cgroupfile.ErrNoUnits, err)
		}
	}
	return err
}

// Close closes the connection.
func (s *Conn) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bus != nil {
		s.bus.Close()
		s.bus = nil
	}
}

// bytesOf returns a set in systemd's format: bit 0 of byte 0 is CPU 0. The last byte has the last CPU.
func bytesOf(s cpuset.Set) []byte {
	mask := []byte{}
	for cpu := range s.All() {
		for len(mask) <= cpu/8 {
			mask = append(mask, 0)
		}
		mask[cpu/8] |= 1 << (cpu % 8)
	}
	return mask
}
