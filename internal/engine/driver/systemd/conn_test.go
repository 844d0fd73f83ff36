package systemd

import (
	"context"
	"errors"
	"fmt"
	"testing"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// fakeBus is a systemd that records the requests.
type fakeBus struct {
	calls  []string
	fails  error
	closed int
}

func (b *fakeBus) SetUnitPropertiesContext(ctx context.Context, name string, runtime bool, properties ...sd.Property) error {
	if _, limited := ctx.Deadline(); !limited || !runtime {
		return errors.New("without a time limit, or for ever")
	}
	for _, p := range properties {
		b.calls = append(b.calls, fmt.Sprintf("%s %s %s", name, p.Name, p.Value))
	}
	return b.fails
}

func (b *fakeBus) GetAllPropertiesContext(context.Context, string) (map[string]any, error) {
	return nil, b.fails
}

func (b *fakeBus) Close() { b.closed++ }

func TestSetList(t *testing.T) {
	fake, dialed := &fakeBus{}, 0
	s := New()
	s.dial = func() (bus, error) {
		dialed++
		return fake, nil
	}
	for _, c := range []struct {
		unit string
		knob cgroup.Knob
		v    cgroup.Value
	}{
		{"a.service", cgroup.KnobCPUs, "0-2,9"},
		{"a.service", cgroup.KnobMems, "1"},
		{"b.scope", cgroup.KnobCPUs, cgroup.Inherit},
	} {
		if err := s.SetList(c.unit, c.knob, c.v); err != nil {
			t.Error(err)
		}
	}
	if err := s.SetList("a.service", cgroup.KnobCPUs, ""); !errors.Is(err, cgroup.ErrMalformed) {
		t.Errorf("an empty list: %v", err)
	}
	want := []string{
		"a.service AllowedCPUs @ay [0x7, 0x2]",
		"a.service AllowedMemoryNodes @ay [0x2]",
		"b.scope AllowedCPUs @ay []",
	}
	if d := cmp.Diff(want, fake.calls); d != "" || dialed != 1 {
		t.Errorf("dialed %d times (-want +got):\n%s", dialed, d)
	}
	fake.fails = errors.New("no such unit")
	if err := s.SetList("c.service", cgroup.KnobCPUs, "0"); !errors.Is(err, fake.fails) {
		t.Errorf("a call that fails: %v", err)
	}
	fake.fails = nil
	if err := s.SetList("a.service", cgroup.KnobCPUs, "0"); err != nil || dialed != 2 || fake.closed != 1 {
		t.Errorf("after that: %v, dialed %d times, closed %d times", err, dialed, fake.closed)
	}
	s.Close()
	s.Close()
	if fake.closed != 2 {
		t.Errorf("closed %d times", fake.closed)
	}
}

func TestSetWeight(t *testing.T) {
	fake := &fakeBus{}
	s := New()
	s.dial = func() (bus, error) { return fake, nil }
	for _, v := range []cgroup.Value{cgroup.Idle, "weight 1", cgroup.DefaultWeight} {
		if err := s.SetWeight("a.slice", v); err != nil {
			t.Error(err)
		}
	}
	for _, v := range []cgroup.Value{"shares 2", "weight 0", ""} {
		if err := s.SetWeight("a.slice", v); !errors.Is(err, cgroup.ErrMalformed) {
			t.Errorf("%q: %v", v, err)
		}
	}
	want := []string{"a.slice CPUWeight @t 0", "a.slice CPUWeight @t 1", "a.slice CPUWeight @t 18446744073709551615"}
	if d := cmp.Diff(want, fake.calls); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	fake.fails = dbus.Error{Name: "org.freedesktop.DBus.Error.InvalidArgs"}
	if err := s.SetWeight("a.slice", cgroup.Idle); !errors.Is(err, cgroupfile.ErrNoIdle) {
		t.Errorf("systemd before 252: %v", err)
	}
	if err := s.SetWeight("a.slice", "weight 5"); err == nil || errors.Is(err, cgroupfile.ErrNoIdle) {
		t.Errorf("another weight: %v", err)
	}
	fake.fails = dbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied"}
	if err := s.SetWeight("a.slice", cgroup.Idle); err == nil || errors.Is(err, cgroupfile.ErrNoIdle) {
		t.Errorf("another error: %v", err)
	}
	if s.MayRecord("a.slice", cgroup.KnobPrecedence) || !s.MayRecord("a.slice", cgroup.KnobCPUs) || !s.MayRecord("a.slice", cgroup.KnobMax) {
		t.Error("a container runtime is answered quotas and lists, and no precedence")
	}
}

func TestUnreachable(t *testing.T) {
	s := New()
	gone := errors.New("no bus")
	s.dial = func() (bus, error) { return nil, gone }
	if err := s.SetList("a.service", cgroup.KnobCPUs, "0"); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

func TestUnitOf(t *testing.T) {
	for path, want := range map[string]string{
		"system.slice/redis.service":                                "redis.service",
		"kubepods.slice/kubepods-pod1.slice/cri-containerd-a.scope": "cri-containerd-a.scope",
		"kubepods.slice/kubepods-pod1.slice":                        "kubepods-pod1.slice",
		"system.slice/_cpu.service":                                 "cpu.service",
		"kubepods/burstable/pod1/abc":                               "",
		"kubepods.slice/x.scope/container":                          "",
		"kubepods/burstable/pod1/abc.scope":                         "",
		"user.slice/user-1000.slice/user@1000.service":              "user@1000.service",
		"user.slice/user-1000.slice/session-2.scope":                "session-2.scope",
		"init.scope": "init.scope",
		"user.slice/user-1000.slice/user@1000.service/session.slice/dbus.service": "",
		"user.slice/user-1000.slice/user@1000.service/app.slice":                  "",
		"system.slice/docker-1.scope/system.slice/cron.service":                   "",
		".scope": "",
		"":       "",
	} {
		if got := UnitOf(path); got != want {
			t.Errorf("UnitOf(%q) = %q, want %q", path, got, want)
		}
	}
}
