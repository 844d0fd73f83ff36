package reconcile

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

// quotaHost is a host with one group, whose quota was raised from half a CPU to one and a half.
type quotaHost struct {
	*unitHost

	journal *journal.Journal
	quotas  *Quotas
	quota   *Quota
}

const (
	half   = "50000 100000"
	raised = "150000 100000"
)

func newQuotaHost(t *testing.T, w plan.Writers) *quotaHost {
	t.Helper()
	h := &quotaHost{unitHost: newUnitHost(t, "app")}
	h.Write("sys/fs/cgroup/app/cpu.max", half+"\n")
	h.Write("sys/fs/cgroup/app/cpu.max.burst", "0\n")
	host := h.reconciler.opts.Host
	var err error
	if h.journal, err = journal.Open(t.TempDir(), "boot", cgroupfile.Values()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.journal.Close() })
	a := apply.New(cgroupfile.Kinds(host, nil), h.journal, apply.Options{})
	h.quotas = New(Options{Host: host, Journal: h.journal, Applier: a}).Quotas()
	group, err := host.Group("app")
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	id, err := group.ID(cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	s := plan.Setting{Target: cgroupfile.Target("app", cgroup.KnobMax), ID: cgroupfile.Identity(id), Owner: plan.OwnerBurst, Workload: "app"}
	h.quota = h.quotas.Quota(s, w, half)
	h.quotas.Set(0, Move{Quota: h.quota, Value: raised, Why: "there is credit"})
	if h.quota.Err() != nil || h.quota.Stands() != raised || h.quota.Original() != half {
		t.Fatalf("raised: %+v", h.quota)
	}
	return h
}

// TestSee covers writes of another program to a quota that Berth moves. It checks who owns the group, which value it
// has when Berth leaves, and whether Berth continues.
func TestSee(t *testing.T) {
	type look struct {
		at       time.Duration
		stands   cgroup.Value
		seen     Seen
		original cgroup.Value
	}
	container := plan.Writers{Limits: [2]unit.CPUs{0.5}, Lifted: true, Chosen: true}
	resized := plan.Writers{Limits: [2]unit.CPUs{0.7}, Lifted: true, Chosen: true}
	nobodys := plan.Writers{Lifted: true, Chosen: true} // no specification names a limit
	puts := plan.Writers{Lifted: true, PutsBack: true, Chosen: true}
	for name, c := range map[string]struct {
		writers plan.Writers
		looks   []look
	}{
		"undisturbed":                 {container, []look{{0, raised, SeenExpected, half}, {time.Hour, raised, SeenExpected, half}}},
		"the kernel doubles it":       {container, []look{{0, "300000 200000", SeenExpected, "100000 200000"}}},
		"a resize":                    {resized, []look{{0, "70000 100000", SeenOriginal, "70000 100000"}}},
		"as systemd rounds it":        {plan.Writers{Limits: [2]unit.CPUs{0.417}, Chosen: true}, []look{{0, "42000 100000", SeenOriginal, "42000 100000"}}},
		"a limit taken away":          {container, []look{{0, "max 100000", SeenOriginal, "max 100000"}}},
		"put back by a daemon-reload": {container, []look{{0, half, SeenOriginal, half}}},
		"another period, its quota":   {nobodys, []look{{0, "150000 75000", SeenOriginal, "50000 75000"}}},
		"another period and quota":    {nobodys, []look{{0, "33333 77777", SeenLeft, half}}},
		"a reload without a spec":     {nobodys, []look{{0, half, SeenForeign, half}, {time.Minute, half, SeenExpected, half}}},
		"put back, then written":      {puts, []look{{0, half, SeenForeign, half}, {time.Second, "70000 100000", SeenLeft, half}}},
		"once, then left, then back": {nobodys, []look{
			{0, "70000 100000", SeenForeign, half},
			{time.Second, "80000 100000", SeenLeft, half},
			{10 * time.Minute, "80000 100000", SeenLeft, half},
			{11 * time.Minute, half, SeenLeft, half},
			{17 * time.Minute, half, SeenReturned, half},
		}},
		"left, then confirmed": {container, []look{
			{0, "80000 100000", SeenForeign, half},
			{time.Second, "90000 100000", SeenLeft, half},
			{2 * time.Second, "max 100000", SeenReturned, "max 100000"},
		}},
		"the kubelet's": {plan.Writers{Owned: true}, []look{
			{0, half, SeenExpected, half},
			{time.Second, "80000 100000", SeenOriginal, "80000 100000"},
			{2 * time.Second, raised, SeenExpected, "80000 100000"},
		}},
		"meant": {plan.Writers{Meant: true, Chosen: true}, []look{{0, "80000 100000", SeenLeft, half}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newQuotaHost(t, c.writers)
			for _, l := range c.looks {
				if got := h.quotas.See(l.at, h.quota, c.writers, l.stands); got != l.seen || h.quota.Original() != l.original {
					t.Errorf("at %s: %d, original %q, want %d, %q", l.at, got, h.quota.Original(), l.seen, l.original)
				}
				if h.quota.Stands() != l.stands {
					t.Errorf("at %s: %q stands, want %q", l.at, h.quota.Stands(), l.stands)
				}
			}
			e, known := h.journal.Entry(h.quota.setting.Target)
			if last := c.looks[len(c.looks)-1]; !known || !cgroup.Same(cgroup.KnobMax, cgroup.Value(e.Original), last.original) {
				t.Errorf("the journal has %q, want %q", e.Original, last.original)
			}
		})
	}
}

// TestRests compares Rests with See: where the file has the original as before, See changes nothing.
func TestRests(t *testing.T) {
	w := plan.Writers{Limits: [2]unit.CPUs{0.5}, Chosen: true}
	h := newQuotaHost(t, w)
	rests := func(value cgroup.Value) bool {
		t.Helper()
		quota, period, err := value.Pair()
		if err != nil {
			t.Fatal(err)
		}
		return h.quota.Rests(quota, period)
	}
	for _, v := range []cgroup.Value{raised, half} {
		if rests(v) {
			t.Errorf("%s rests while Berth has raised the quota", v)
		}
	}
	h.quotas.LetGo(0, func(journal.Entry) bool { return true })
	h.quotas.See(0, h.quota, w, half)
	for v, want := range map[cgroup.Value]bool{half: true, raised: false, "50000 200000": false, "max 100000": false} {
		if got := rests(v); got != want {
			t.Errorf("%s rests: %t, want %t", v, got, want)
		}
	}
	before := *h.quota
	if seen := h.quotas.See(time.Hour, h.quota, w, half); seen != SeenExpected || *h.quota != before {
		t.Errorf("seen %d, quota %+v, want no change of %+v", seen, *h.quota, before)
	}
	h.quota.unsettled = true
	if rests(half) {
		t.Error("a quota rests whose original is not in the journal yet")
	}
}

// However often systemd restores the limit that it knows for a service, that is not a conflict. A quota that was
// restored twice within a minute is raised again after that minute.
func TestReloadsWithinAMinute(t *testing.T) {
	w := plan.Writers{Lifted: true, PutsBack: true, Chosen: true}
	h := newQuotaHost(t, w)
	for _, c := range []struct {
		at   time.Duration
		held bool
	}{{time.Second, false}, {20 * time.Second, true}, {40 * time.Second, true}, {62 * time.Second, false}, {70 * time.Second, false}, {75 * time.Second, true}} {
		h.Write("sys/fs/cgroup/app/cpu.max", half+"\n")
		if got := h.quotas.See(c.at, h.quota, w, half); got != SeenForeign && got != SeenExpected {
			t.Fatalf("at %s: seen %d, %s", c.at, got, h.quota.Left())
		}
		if held := h.quota.Held(c.at, raised); held != c.held {
			t.Errorf("at %s: the next raise is held: %v", c.at, held)
		}
		if !c.held {
			h.quotas.Set(c.at, Move{Quota: h.quota, Value: raised, Why: "there is credit"})
		}
		if c.held && h.quota.Held(62*time.Second, raised) && c.at < time.Minute {
			t.Errorf("at %s: held for more than a minute", c.at)
		}
	}
}

// A specification may name a limit only after Berth overwrote its value. That limit is the original all the same.
func TestSpecificationThatComesLater(t *testing.T) {
	before, after := plan.Writers{Limits: [2]unit.CPUs{0.5}, Chosen: true}, plan.Writers{Limits: [2]unit.CPUs{0.7}, Chosen: true}
	h := newQuotaHost(t, before)
	if got := h.quotas.See(0, h.quota, before, "70000 100000"); got != SeenForeign {
		t.Fatalf("seen %d", got)
	}
	h.Write("sys/fs/cgroup/app/cpu.max", "70000 100000\n")
	h.quotas.Set(0, Move{Quota: h.quota, Value: raised})
	if got := h.quotas.See(time.Second, h.quota, after, raised); got != SeenOriginal || h.quota.Original() != "70000 100000" {
		t.Errorf("seen %d, original %q", got, h.quota.Original())
	}
}

// A refused write delays the next write of its kind, but not the return to the limit.
func TestQuotaHeldBack(t *testing.T) {
	h := newQuotaHost(t, plan.Writers{})
	h.Write("sys/fs/cgroup/app/cpu.max", "60000 100000\n")
	h.quotas.Set(time.Second, Move{Quota: h.quota, Value: half})
	if h.quota.Err() == nil || h.quota.Stands() != raised {
		t.Errorf("written over another value: %+v", h.quota)
	}
	if h.quota.Held(time.Second, half) {
		t.Error("a value that changed meanwhile is no refusal")
	}
	if made, refused := h.quota.Writes(); made != 1 || refused != 1 {
		t.Errorf("%d writes, %d refused, want 1 and 1", made, refused)
	}
}

// Of several moves of one quota only the last is written.
func TestLastMoveCounts(t *testing.T) {
	h := newQuotaHost(t, plan.Writers{})
	h.quotas.Set(time.Second, Move{Quota: h.quota, Value: "170000 100000"}, Move{Quota: h.quota, Value: half})
	if made, failed := h.quota.Writes(); h.quota.Stands() != half || made != 2 || failed != 0 {
		t.Errorf("%q stands after %d writes, %d failed", h.quota.Stands(), made, failed)
	}
}
