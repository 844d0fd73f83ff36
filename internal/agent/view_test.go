package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/test/chance"
	"github.com/berth-project/berth/test/newcomer"
)

// A view has the machine, quotas, changes with their originals, and events of every capability.
func TestView(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.more = []capability.Capability{&newcomer.Newcomer{Events: []capability.Event{{Reason: "BunkGiven", Text: "the bunk is made", Warning: true}}}}
		m.boot()
		m.run(4*time.Second, 0.1)
		v := m.served()
		if v.Machine == nil || v.Machine.Online.String() != "0-3" || len(v.CPUs) != 4 || v.CPUs[3].Class != "shared" {
			t.Errorf("machine %+v, CPUs %+v", v.Machine, v.CPUs)
		}
		if len(v.Events) != 1 || v.Events[0].Reason != "BunkGiven" || !v.Events[0].Warning || v.Events[0].At.IsZero() {
			t.Errorf("events %+v", v.Events)
		}
		if len(v.Changes) != 1 || v.Changes[0].Original != atLimit || v.Changes[0].Written != atCeiling || v.Changes[0].Workload != app {
			t.Errorf("changes %+v", v.Changes)
		}
		if len(v.Workloads) != 1 || v.Workloads[0].Status == nil || v.Workloads[0].Quota == nil {
			t.Fatalf("workloads %+v", v.Workloads)
		}
		if q := v.Workloads[0].Quota; q.Limit != 0.5 || q.Now != 1.49998 || q.Capacity != 20 || q.Periods != 10 {
			t.Errorf("quota %+v", q)
		}
		if _, remembered := v.Node["ledgers"]; remembered {
			t.Error("the ledgers are shown")
		}
		_ = m.stop()
	})
}

// A change names the file of this cgroup version, and the value in that file.
func TestChangesNameTheFile(t *testing.T) {
	archive, err := txtar.ParseFile(filepath.Join("..", "linux", "cgroup", "testdata", "v1.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(archive, dir); err != nil {
		t.Fatal(err)
	}
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	host, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(knob cgroup.Knob, original, intent plan.Value) journal.Entry {
		return journal.Entry{Target: cgroupfile.Target("redis", knob), Original: original, Intent: intent}
	}
	var said []string
	for _, c := range changes(host, []journal.Entry{
		entry(cgroup.KnobMax, "max 100000", "150000 100000"),
		entry(cgroup.KnobBurst, "0 100000", "70000 100000"),
		entry(cgroup.KnobCPUs, "0-3", "0-1"),
	}) {
		said = append(said, fmt.Sprintf("%s/%s %s to %s", c.Object, c.Knob, c.Original, c.Written))
	}
	want := []string{"redis/cpu.cfs_quota_us -1 to 150000", "redis/cpu.cfs_burst_us 0 to 70000", "redis/cpuset.cpus 0-3 to 0-1"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}

// The changes in a view are those of now, however the journal changes between two views.
func TestChangesAreOfNow(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		random := rand.New(rand.NewPCG(chance.Seed(), 0))
		m.workload(policy20)
		m.boot()
		kept, seen := &viewer{agent: m.controls}, map[string]bool{}
		for second := range 40 {
			rate := 3.0 // uses up the credit
			if second >= 20 {
				rate = 2 * random.Float64()
			}
			m.run(time.Second, rate)
			now := (&viewer{agent: m.controls}).changed()
			if diff := cmp.Diff(now, kept.changed()); diff != "" {
				t.Fatalf("seed %d (-now +remembered):\n%s", chance.Seed(), diff)
			}
			seen[fmt.Sprint(now)] = true
		}
		if len(seen) < 2 {
			t.Errorf("seed %d: nothing changed", chance.Seed())
		}
		_ = m.stop()
	})
}

// The view measures the load of CPUs between two views.
func TestViewLoads(t *testing.T) {
	dir := t.TempDir()
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	now := time.Hour
	v := &viewer{agent: &controller{opts: Options{Root: root, Clock: func() time.Duration { return now }}}}
	measure := func(busy, idle int) view.Facts {
		t.Helper()
		text := fmt.Sprintf("cpu 0 0 0 0 0 0 0 0\ncpu0 %d 0 0 %d 0 0 0 0\n", busy, idle)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "proc"), 0o755), os.WriteFile(filepath.Join(dir, "proc/stat"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		var f view.Facts
		if err := v.measure(&f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := measure(100, 100); f.Loads != nil {
		t.Errorf("loads of one reading: %v", f.Loads)
	}
	now += time.Second
	if f := measure(175, 125); len(f.Loads) != 1 || f.Loads[0] != 0.75 || f.LoadSeconds != 1 {
		t.Errorf("%v over %v s", f.Loads, f.LoadSeconds)
	}
}
