package containers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/cri"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestMain fails when a test leaves a goroutine behind: every one is joined.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nothing is a Handler and Groups of a runtime that has none.
type nothing struct{}

func (nothing) Handle(context.Context, nri.Event) (nri.Reply, error) { return nri.Reply{}, nil }

func (nothing) RuntimeGroup(string, int) (string, error) { return "", nil }

// runtime is one that is not there.
func runtime(t *testing.T, o Options) *Runtime {
	t.Helper()
	o.Handler, o.Groups, o.Log = nothing{}, nothing{}, slog.New(slog.DiscardHandler)
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if r.client != nil {
		t.Cleanup(func() { _ = r.client.Close() })
	}
	return r
}

// Nothing is missing once the runtime reports what runs: over NRI, or over CRI where that
// is away.
func TestMissing(t *testing.T) {
	const endpoint = "unix:///nobody"
	listed := func(nri.Event, []error, error) {}
	synctest.Test(t, func(t *testing.T) {
		wants := func(step string, r *Runtime, part string) {
			t.Helper()
			if text := r.Missing(); !strings.Contains(text, part) || part == "" && text != "" {
				t.Errorf("%s: %s", step, text)
			}
		}
		wants("never asked", new(Runtime), "")
		wants("no NRI", runtime(t, Options{NRISocket: "/nobody"}), "over NRI at /nobody: away")

		r := runtime(t, Options{NRISocket: v1alpha1.NoNRI, Endpoint: endpoint, Listed: listed})
		wants("no list yet", r, "list at "+endpoint)
		r.take(cri.Listing{}, errors.New("away"))
		wants("no list", r, "list at "+endpoint)
		r.take(cri.Listing{}, nil)
		wants("a list", r, "")
		r.take(cri.Listing{}, errors.New("away"))
		wants("no list any more", r, "list at "+endpoint)

		r = runtime(t, Options{NRISocket: "/nobody", Endpoint: endpoint, Listed: listed})
		time.Sleep(time.Minute)
		wants("neither", r, "over NRI at /nobody: away")
		r.take(cri.Listing{}, nil)
		wants("a list instead of NRI", r, "")
	})
}

// A connection over NRI has a state only where there is one.
func TestNRI(t *testing.T) {
	if _, ok := new(Runtime).NRI(); ok {
		t.Error("a state without NRI")
	}
	if status, ok := runtime(t, Options{NRISocket: "/nobody"}).NRI(); !ok || status.State != nri.Away {
		t.Errorf("status %+v", status)
	}
}

func TestBadOptions(t *testing.T) {
	_, err := New(Options{NRISocket: "/nobody", Endpoint: "tcp://host"})
	if !errors.Is(err, nri.ErrOptions) || !errors.Is(err, cri.ErrEndpoint) {
		t.Errorf("error %v", err)
	}
}

// While NRI is away the runtime is asked over CRI, and reported if it does not answer.
func TestRunAsksOverCRI(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var why error
	r := runtime(t, Options{
		NRISocket: v1alpha1.NoNRI, Endpoint: "unix:///nobody",
		Listed: func(_ nri.Event, _ []error, err error) {
			why = err
			cancel()
		},
	})
	if err := r.Run(ctx); err != nil || !errors.Is(why, cri.ErrAway) {
		t.Errorf("error %v, listed %v", err, why)
	}
}

// A runtime that reported over NRI is asked over CRI once that is away for five seconds, not before,
// and until then nothing wakes but once.
func TestWaitsForNRI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		r := runtime(t, Options{
			NRISocket: "/nobody", Endpoint: "unix:///nobody",
			Listed: func(nri.Event, []error, error) {
				asked = append(asked, time.Since(begin))
				cancel()
			},
		})
		if got := r.reportsFor(); got != withoutNRI {
			t.Errorf("not to be asked for %v", got)
		}
		time.Sleep(withoutNRI - time.Second)
		if got := r.reportsFor(); got != time.Second {
			t.Errorf("not to be asked for %v", got)
		}
		if err := r.follow(ctx); err != nil || len(asked) != 1 || asked[0] != withoutNRI {
			t.Errorf("asked after %v, %v", asked, err)
		}
		if got := r.reportsFor(); got != 0 || r.reports() {
			t.Errorf("not to be asked for %v", got)
		}
	})
}

// What runs is reported as NRI reports it, without a group where that is not known; what has ended is not.
func TestListingIsAnEvent(t *testing.T) {
	problem := errors.New("problem")
	labels, annotations := map[string]string{"l": "1"}, map[string]string{"a": "2"}
	list := cri.Listing{
		Pods: []cri.Pod{
			{
				ID: "box", Namespace: "ns", Name: "p", UID: "u", RuntimeHandler: "h", Ready: true,
				PID: 7, CgroupPath: "kubepods/podu/box", Labels: labels, Annotations: annotations,
			},
			{ID: "ended", UID: "v"},
			{ID: "unplaced", UID: "w", Ready: true},
		},
		Containers: []cri.Container{
			{ID: "c", PodID: "box", Name: "main", State: cri.Running, PID: 8, CgroupPath: "kubepods/podu/c"},
			{ID: "d", PodID: "box", State: cri.Exited},
			{ID: "e", PodID: "box", State: cri.Created},
		},
		Problems: []error{problem},
	}
	want := nri.Event{
		Kind: nri.Synchronize,
		Pods: []nri.Pod{{
			ID: "box", Namespace: "ns", Name: "p", UID: "u", RuntimeHandler: "h", PID: 7,
			CgroupParent: "kubepods/podu", CgroupPath: "kubepods/podu/box", Labels: labels, Annotations: annotations,
		}, {ID: "unplaced", UID: "w"}},
		Containers: []nri.Container{{ID: "c", PodID: "box", Name: "main", State: nri.Running, PID: 8, CgroupPath: "kubepods/podu/c", Unrecorded: true}},
	}
	r := &Runtime{opts: Options{Listed: func(e nri.Event, problems []error, err error) {
		if diff := cmp.Diff(want, e, cmpopts.EquateComparable(cpuset.Set{})); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
		if len(problems) != 1 || !errors.Is(problems[0], problem) || err != nil {
			t.Errorf("problems %v, error %v", problems, err)
		}
	}}}
	r.take(list, nil)
}
