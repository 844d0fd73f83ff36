package apply_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/kernel/job"
)

// drawPolicy draws a state of the tree that the kernel accepts as a whole: quotas below the parent's and bursts below
// the quotas.
func drawPolicy(r *rand.Rand, top string) []plan.Setting {
	var settings []plan.Setting
	above := unit.NoLimit
	for _, group := range []string{top, top + "/a", top + "/b"} {
		quota := unit.Micros(1+r.IntN(8)) * period / 2
		if r.IntN(6) == 0 {
			quota = unit.NoLimit
		}
		if group == top {
			above = quota
		} else if above > 0 && quota > above {
			quota = above
		}
		burst := unit.Micros(r.IntN(9)) * period / 2
		if quota > 0 {
			burst = min(burst, quota)
		}
		settings = append(settings, maxTo(group, quota), burstTo(group, burst))
	}
	return settings
}

const (
	// transitions is the number of policies on a machine that is fast enough, as every real one is. An emulated machine
	// makes at least leastTransitions, and as many as it can within patience. The stride divides both.
	transitions      = 10_000
	leastTransitions = 1_000
	patience         = 20 * time.Second
)

// The kernel accepts every single write of ten thousand successive random policies. In the end every byte is restored.
func TestRandomTransitions(t *testing.T) {
	l := newLive(t)
	before := l.files()
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	part, err := job.Stride()
	must(t, err)
	made, writes := 0, 0
	for start := time.Now(); made < transitions && (made < leastTransitions/part || time.Since(start) < patience/time.Duration(part)); made++ {
		wanted := drawPolicy(r, l.top.Path())
		for _, result := range a.Apply(plan.Order(cgroupfile.Values(), plan.Diff(cgroupfile.Values(), wanted, l.observe(wanted)))) {
			if result.Err != nil {
				t.Fatalf("seed %d, transition %d: %v", seed, made, result.Err)
			}
			writes++
		}
	}
	t.Logf("%d transitions, %d writes", made, writes)
	if writes < 2*made {
		t.Errorf("only %d writes in %d transitions", writes, made)
	}
	for _, line := range a.Restore(nil, false) {
		if line.Err != nil || line.Outcome != apply.OutcomeRestored && line.Outcome != apply.OutcomeAlready {
			t.Errorf("%+v", line)
		}
	}
	l.same(before)
}

// The quota moves ten thousand times while another program, as the kubelet does, resizes the group and writes its own
// burst. The kernel accepts every write of both, and the burst stays that program's.
func TestTransitionsBesideForeignBurst(t *testing.T) {
	l := newLive(t)
	r := rand.New(rand.NewPCG(1, 1))
	a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
	part, err := job.Stride()
	must(t, err)
	must(t, l.top.SetMax(unit.NoLimit, period)) // it limits its children on cgroup v1
	group, limit, burst, writes := l.a, period, unit.Micros(0), 0
	must(t, group.SetBurst(burst))
	must(t, group.SetMax(limit, period))
	for made, start := 0, time.Now(); made < transitions && (made < leastTransitions/part || time.Since(start) < patience/time.Duration(part)); made++ {
		if r.IntN(4) == 0 { // in the order that the kernel accepts: the larger value first
			before := limit
			limit = unit.Micros(1+r.IntN(8)) * period / 4
			burst = unit.Micros(r.Int64N(int64(limit) + 1))
			if limit < before {
				must(t, group.SetBurst(burst))
			}
			must(t, group.SetMax(limit, period))
			must(t, group.SetBurst(burst))
		}
		wanted := []plan.Setting{maxTo(group.Path(), limit*unit.Micros(1+2*r.IntN(2)))}
		for _, result := range a.Apply(plan.Order(cgroupfile.Values(), plan.Diff(cgroupfile.Values(), wanted, l.observe(wanted)))) {
			if result.Err != nil {
				t.Fatalf("transition %d, limit %d, burst %d: %v", made, limit, burst, result.Err)
			}
			writes++
		}
		if b, err := group.Handle().Bandwidth(); err != nil || b.Burst != burst {
			t.Fatalf("transition %d: the burst is %d, its writer wrote %d (%v)", made, b.Burst, burst, err)
		}
	}
	if writes == 0 {
		t.Error("nothing was written")
	}
}

// observe reads the present values through open handles, and adds the identities of the groups to the settings.
func (l *live) observe(settings []plan.Setting) map[plan.Target]plan.Value {
	l.t.Helper()
	handles := map[string]*cgroup.Group{}
	for _, g := range []*scratch.Group{l.top, l.a, l.b} {
		handles[g.Path()] = g.Handle()
	}
	observed := make(map[plan.Target]plan.Value)
	for i, s := range settings {
		v, err := handles[s.Object].Read(cgroupfile.Knob(s.Target))
		must(l.t, err)
		observed[s.Target] = plan.Value(v)
		id, err := handles[s.Object].ID(cgroup.CPU)
		must(l.t, err)
		settings[i].ID = cgroupfile.Identity(id)
	}
	return observed
}
