package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/deploy"
	"github.com/berth-project/berth/internal/agent/orphans"
)

// fakeSystemd notes what it is asked for, and whether the unit was on the disk then.
type fakeSystemd struct {
	file  string
	calls []string
	fails string // The first word of the call that fails.
}

var errFake = errors.New("systemd does not answer")

func (s *fakeSystemd) call(what string) error {
	if _, err := os.Stat(s.file); err == nil {
		what += ", unit is there"
	}
	s.calls = append(s.calls, what)
	if s.fails != "" && strings.HasPrefix(what, s.fails) {
		return errFake
	}
	return nil
}

func (s *fakeSystemd) Reload(context.Context) error            { return s.call("reload") }
func (s *fakeSystemd) Start(_ context.Context, u string) error { return s.call("start " + u) }
func (s *fakeSystemd) Stop(_ context.Context, u string) error  { return s.call("stop " + u) }

func newHost(t *testing.T) (Host, *fakeSystemd) {
	t.Helper()
	h := Host{Root: t.TempDir()}
	s := &fakeSystemd{file: h.File()}
	h.Systemd = s
	return h, s
}

func text(t *testing.T) string {
	t.Helper()
	text, err := Text(deploy.Unit(), "/usr/local/bin/berth", "/etc/berth/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTextIsThePackages: the unit differs from that of the packages by its first line and its paths.
func TestTextIsThePackages(t *testing.T) {
	got := text(t)
	if !strings.Contains(got, "\nExecStart=/usr/local/bin/berth agent --config /etc/berth/agent.yaml\n") {
		t.Errorf("the unit does not start the program:\n%s", got)
	}
	for _, owner := range orphans.Movers() {
		if !strings.Contains(got, "\nExecStopPost=-/usr/local/bin/berth rollback --config /etc/berth/agent.yaml --owner "+string(owner)+"\n") {
			t.Errorf("the unit does not put back what %s moved:\n%s", owner, got)
		}
	}
	back := strings.ReplaceAll(strings.TrimPrefix(got, mark), "/usr/local/bin/berth", "/usr/bin/berth")
	if diff := cmp.Diff(deploy.Unit(), back); diff != "" {
		t.Errorf("unit (-packages +installed):\n%s", diff)
	}
	if !strings.Contains(got, "\nStateDirectory="+filepath.Base(StateDir)+"\n") {
		t.Errorf("the unit has another state directory than %s", StateDir)
	}
}

func TestTextRefusesPaths(t *testing.T) {
	for _, path := range []string{
		"berth", "/opt/my berth", "/opt/%n/berth", "/opt/a\nb", `/opt/"b"`, "",
		"/home/me/bin/berth", "/root/berth", "/tmp/berth", "/run/user/0/berth", "/opt/../home/me/berth",
	} {
		if got, err := Text(deploy.Unit(), path, "/etc/berth/agent.yaml"); !errors.Is(err, ErrPath) {
			t.Errorf("program %q: %v\n%s", path, err, got)
		}
		if got, err := Text(deploy.Unit(), "/usr/bin/berth", path); !errors.Is(err, ErrPath) {
			t.Errorf("file %q: %v\n%s", path, err, got)
		}
	}
	if _, err := Text("ExecStart=/bin/true", "/usr/bin/berth", "/etc/berth/agent.yaml"); !errors.Is(err, ErrPath) {
		t.Errorf("another unit: %v", err)
	}
}

// TestInstallAndRemove: the file is there before systemd reads it, and stops before it goes. Both
// can be called twice.
func TestInstallAndRemove(t *testing.T) {
	h, s := newHost(t)
	for range 2 {
		if err := h.Install(t.Context(), text(t)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(h.File()); err != nil || string(got) != text(t) {
		t.Errorf("the unit is %q: %v", got, err)
	}
	if info, err := os.Stat(h.File()); err != nil || info.Mode() != 0o644 {
		t.Errorf("the unit is %v: %v", info.Mode(), err)
	}
	for _, want := range []bool{true, false} {
		if was, err := h.Remove(t.Context()); was != want || err != nil {
			t.Errorf("removed: %t, %v; want %t", was, err, want)
		}
	}
	installed := []string{"reload, unit is there", "start berth-agent.service, unit is there"}
	want := append(append(installed, installed...), "stop berth-agent.service, unit is there", "reload")
	if diff := cmp.Diff(want, s.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	left, err := os.ReadDir(filepath.Dir(h.File()))
	if err != nil || len(left) != 0 {
		t.Errorf("left are %v: %v", left, err)
	}
}

// TestForeignUnits: no unit of another hand is replaced or removed, and systemd hears of nothing.
func TestForeignUnits(t *testing.T) {
	for name, content := range map[string]string{
		"etc/systemd/system/" + Name:     "[Service]\nExecStart=/opt/berth agent\n",
		"usr/lib/systemd/system/" + Name: deploy.Unit(),
		"lib/systemd/system/" + Name:     deploy.Unit(),
	} {
		t.Run(filepath.Dir(name), func(t *testing.T) {
			h, s := newHost(t)
			file := filepath.Join(h.Root, name)
			put(t, file, content)
			if err := h.Install(t.Context(), text(t)); !errors.Is(err, ErrForeign) {
				t.Errorf("install: %v", err)
			}
			if _, err := h.Remove(t.Context()); !errors.Is(err, ErrForeign) {
				t.Errorf("remove: %v", err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != content || s.calls != nil {
				t.Errorf("the unit is %q (%v), systemd heard %q", got, err, s.calls)
			}
		})
	}
}

// TestMaskedUnit: an administrator who masked the unit means it.
func TestMaskedUnit(t *testing.T) {
	h, _ := newHost(t)
	if err := os.MkdirAll(filepath.Dir(h.File()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", h.File()); err != nil {
		t.Fatal(err)
	}
	if err := h.Install(t.Context(), text(t)); !errors.Is(err, ErrForeign) {
		t.Errorf("install: %v", err)
	}
}

// TestGoesOn: what systemd refused once, the same call does later.
func TestGoesOn(t *testing.T) {
	h, s := newHost(t)
	for _, fails := range []string{"reload", "start"} {
		s.fails = fails
		if err := h.Install(t.Context(), text(t)); !errors.Is(err, errFake) {
			t.Errorf("install while %s fails: %v", fails, err)
		}
	}
	s.fails = ""
	if err := h.Install(t.Context(), text(t)); err != nil {
		t.Error(err)
	}
	s.fails = "stop"
	if _, err := h.Remove(t.Context()); !errors.Is(err, errFake) {
		t.Errorf("remove: %v", err)
	}
	if _, err := os.Stat(h.File()); err != nil {
		t.Errorf("an agent that runs lost its unit: %v", err)
	}
	s.fails = ""
	if was, err := h.Remove(t.Context()); !was || err != nil {
		t.Errorf("removed: %t, %v", was, err)
	}
}

// TestUnwritable: where the unit cannot be written there is none, and no draft of it.
func TestUnwritable(t *testing.T) {
	h, s := newHost(t)
	put(t, filepath.Join(h.Root, "etc/systemd/system"), "a file")
	if err := h.Install(t.Context(), text(t)); err == nil || len(s.calls) > 0 {
		t.Errorf("install: %v, systemd heard %q", err, s.calls)
	}
	h, s = newHost(t)
	if err := os.MkdirAll(filepath.Join(h.File(), "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := h.Install(t.Context(), text(t)); err == nil || len(s.calls) > 0 {
		t.Errorf("install: %v, systemd heard %q", err, s.calls)
	}
	if all, err := os.ReadDir(filepath.Dir(h.File())); err != nil || len(all) != 1 {
		t.Errorf("beside the unit: %v, %v", all, err)
	}
}
