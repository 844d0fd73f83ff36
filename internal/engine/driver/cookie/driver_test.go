package cookie

import (
	"errors"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/coresched"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

// What the threads of a group amount to.
func TestValue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		threads Threads
		want    plan.Value
	}{
		{Threads{}, All},
		{Threads{Have: []int{1}}, All},
		{Threads{Lack: []int{1}}, None},
		{Threads{Have: []int{1}, Lack: []int{2}}, Some},
	} {
		if got := test.threads.value(); got != test.want {
			t.Errorf("%v: %s, want %s", test.threads, got, test.want)
		}
	}
}

// A process that joined after all got the cookie leaves a value that is Berth's to put back.
func TestJoined(t *testing.T) {
	t.Parallel()
	kinds, target := Values(), Target("batch", 7)
	if target.String() != "batch cookie 7" || !kinds.Mangled(target, Some, All) || kinds.Mangled(target, None, All) || kinds.Mangled(target, Some, None) {
		t.Error(target)
	}
}

// TestRefusesTooMany: a group with very many threads gets no cookie, since the agent does nothing else
// meanwhile. It is taken from any number.
func TestRefusesTooMany(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		all     bool
		threads int
		want    error
	}{
		"few":             {true, 2, nil},
		"most":            {true, Most, nil},
		"many":            {true, Most + 1, ErrTooMany},
		"taken from many": {false, Most + 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := write{group: &cgroup.Group{}, all: test.all}
			if err := w.refuses(test.threads); !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
}

// What an error means for a group.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ err, want error }{
		{cgroup.ErrNoGroup, apply.ErrGone}, {hostfs.ErrGone, apply.ErrGone}, {coresched.ErrNotPermitted, ErrUnseen}, {coresched.ErrNoSiblings, apply.ErrNotInForce}, {nil, nil},
	} {
		if got := classify(test.err); !errors.Is(got, test.want) {
			t.Errorf("%v: %v", test.err, got)
		}
	}
	d := &cookies{}
	if _, _, err := d.Read(plan.Target{Driver: Driver, Object: "batch", Knob: "cookie x"}); !errors.Is(err, coresched.ErrNotACookie) {
		t.Errorf("a target without cookie: %v", err)
	}
}
