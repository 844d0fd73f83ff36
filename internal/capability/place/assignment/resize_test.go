package assignment_test

import (
	"errors"
	"testing"

	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
)

// limited returns a pod on CPUs 2-3 with this limit in its spec, in thousandths. held is the limit in effect while the
// kubelet defers the resize, or 0.
func limited(limit, held int64) *cluster.Pod {
	p := pinnedPod("p", "2-3")
	p.Containers[0].CPURequest, p.Containers[0].CPULimit, p.Containers[0].CPUHeld = limit, limit, held
	p.Changed, p.Resizing = limit != 2000, limit != 2000 && held == 0
	return p
}

// A resize uses the limits that the kubelet applies: the limits in effect while it defers, and the spec's limits once
// its call names them. A call that does not match the known pod waits, and then changes nothing.
func TestResizeFollowsTheKubelet(t *testing.T) {
	tests := []struct {
		name  string
		known *cluster.Pod
		quota int64
		want  string
		late  bool
	}{
		{"grown", limited(4000, 0), 400_000, "0-3", false},
		{"shrunk", limited(1000, 0), 100_000, "2", false},
		{"no quota in the call", limited(4000, 0), 0, "0-3", false},
		{"deferred, of memory only", limited(4000, 2000), 0, "2-3", false},
		{"deferred, and asked for what stands", limited(4000, 2000), 200_000, "2-3", false},
		{"deferred until now", limited(4000, 2000), 400_000, "0-3", false},
		{"not known yet", limited(2000, 0), 400_000, "2-3", true},
		{"another one is known", limited(6000, 0), 400_000, "2-3", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := open(t)
			n.Take(snapshot(limited(2000, 0)))
			start(t, n, limited(2000, 0))
			n.Take(snapshot(test.known))
			e := event(nri.Update, test.known)
			e.Requested = nri.Resources{Quota: test.quota}
			a, err := n.Handle(e, false)
			if test.late != errors.Is(err, inventory.ErrUnknownPod) {
				t.Fatalf("asked too early: %v", err)
			}
			if test.late {
				a, err = n.Handle(e, true)
			}
			if err != nil {
				t.Fatal(err)
			}
			own := a.Reply.Updates[len(a.Reply.Updates)-1]
			if own.ContainerID != "c-p" || own.CPUs != set(test.want) || !own.NoQuota {
				t.Errorf("answered %+v", a.Reply)
			}
			n.Take(snapshot(test.known)) // the status stays the same for a while
			if d := desired(n); d[len(d)-1].CPUs != set(test.want) {
				t.Errorf("desired afterwards: %+v", d)
			}
		})
	}
}

// Once the kubelet has applied a resize, its limits take effect, whatever the runtime asked.
func TestResizeThatWasMissed(t *testing.T) {
	n := open(t)
	n.Take(snapshot(limited(2000, 0)))
	start(t, n, limited(2000, 0))
	p := limited(4000, 0)
	n.Take(snapshot(p))
	if d := desired(n); d[len(d)-1].CPUs != set("2-3") {
		t.Errorf("while it is carried out: %+v", d)
	}
	done := limited(4000, 0)
	done.Resizing = false
	n.Take(snapshot(done))
	if d := desired(n); d[len(d)-1].CPUs != set("0-3") {
		t.Errorf("carried out: %+v", d)
	}
}

// The update of a pod that does not ask for exclusive CPUs never waits.
func TestUpdateOfOthersDoesNotWait(t *testing.T) {
	n := open(t)
	p := plainPod("web")
	n.Take(snapshot(p))
	start(t, n, p)
	e := event(nri.Update, p)
	e.Requested = nri.Resources{Quota: 400_000}
	handle(t, n, e)
}
