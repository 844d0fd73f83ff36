package bench

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// tiny returns a machine that small traces fill.
func tiny() PlaceMachine {
	s := shape{2, 1, 2, 4, 2}
	return PlaceMachine{Name: s.name(), Topology: s.topology()}
}

func TestGeneratedMachines(t *testing.T) {
	for i, want := range []struct{ cpus, nodes, l3s, cores, sockets int }{{256, 2, 16, 128, 2}, {512, 8, 32, 256, 2}} {
		m := GeneratedMachines()[i].Topology
		got := []int{m.Online.Size(), len(m.Nodes), len(m.L3), len(m.Cores), len(m.Sockets)}
		if diff := cmp.Diff([]int{want.cpus, want.nodes, want.l3s, want.cores, want.sockets}, got); diff != "" {
			t.Errorf("machine %d (-want +got):\n%s", i, diff)
		}
		// The scheduler would read the same machine from its spec: its parts are disjoint and complete.
		if _, err := topology.FromSpec(m.Spec()); err != nil {
			t.Errorf("machine %d: %v", i, err)
		}
	}
}

func TestTraceIsTheSameForASeed(t *testing.T) {
	a, b := newTrace(3, 64, 1000), newTrace(3, 64, 1000)
	if diff := cmp.Diff(a, b, cmp.AllowUnexported(traceEvent{})); diff != "" {
		t.Errorf("same seed (-a +b):\n%s", diff)
	}
	if cmp.Equal(a, newTrace(4, 64, 1000), cmp.AllowUnexported(traceEvent{})) {
		t.Error("another seed gives the same trace")
	}
	here, cpus, arrivals := map[int]bool{}, 0, 0
	for i, e := range a {
		if i > 0 && e.at < a[i-1].at {
			t.Fatalf("event %d goes back in time", i)
		}
		if e.gone != here[e.pod] {
			t.Fatalf("pod %d: gone %v, here %v", e.pod, e.gone, here[e.pod])
		}
		here[e.pod] = true
		if !e.gone {
			arrivals++
			cpus += e.cpus
		}
	}
	if arrivals != 500 || len(a) != 1000 {
		t.Errorf("%d arrivals of %d events", arrivals, len(a))
	}
	// The offered load is the mean size × arrivals per lifetime.
	offered := float64(cpus) / a[len(a)-1].at
	if offered < 0.5*64 || offered > 1.5*64 {
		t.Errorf("%.1f CPUs offered to 64", offered)
	}
}

// TestArmsMeetTheSameArrivals: a picker sees exactly the arrivals and the held CPUs. A picker that cheats is detected.
func TestArmsMeetTheSameArrivals(t *testing.T) {
	m := tiny().Topology
	events := newTrace(1, 32, 200)
	asked := func(pick pickCPUs) (sizes []int, counts PlaceCounts, err error) {
		counts, err = runTrace(m, events, func(held cpuset.Set, n int) (cpuset.Set, bool) {
			sizes = append(sizes, n)
			return pick(held, n)
		})
		return sizes, counts, err
	}
	lowest := func(held cpuset.Set, n int) (cpuset.Set, bool) {
		var cpus cpuset.Set
		for cpu := range m.Online.Difference(held).All() {
			if cpus.Size() < n {
				cpus = cpus.Add(cpu)
			}
		}
		return cpus, cpus.Size() == n
	}
	never := func(cpuset.Set, int) (cpuset.Set, bool) { return cpuset.Set{}, false }
	a, some, err := asked(lowest)
	if err != nil {
		t.Fatal(err)
	}
	b, none, err := asked(never)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" || len(a) != 100 {
		t.Errorf("%d arrivals, different ones for different arms:\n%s", len(a), diff)
	}
	if none.Admitted != 0 || none.Arrivals != 100 || some.Admitted == 0 || some.OneL3 > some.OneNUMA || some.OneNUMA > some.Admitted {
		t.Errorf("counts %+v and %+v", some, none)
	}
	for name, cheat := range map[string]pickCPUs{
		"gives CPUs twice": func(cpuset.Set, int) (cpuset.Set, bool) { return lowest(cpuset.Set{}, 1) },
		"gives too few":    func(cpuset.Set, int) (cpuset.Set, bool) { return cpuset.Set{}, true },
	} {
		if _, _, err := asked(cheat); !errors.Is(err, ErrPick) {
			t.Errorf("%s: got %v, want ErrPick", name, err)
		}
	}
}

func TestCounts(t *testing.T) {
	u := newUnits(tiny().Topology) // Node 0: 0-7 and 16-23; L3 0: 0-3 and 16-19.
	of := func(list string) cpuset.Set {
		s, err := cpuset.Parse(list)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		held, cpus string
		want       PlaceCounts
	}{
		{"", "0-1,16", PlaceCounts{Admitted: 1, OneNUMA: 1, OneL3: 1, NUMANodes: 1, L3s: 1}},
		{"16", "0-1", PlaceCounts{Admitted: 1, OneNUMA: 1, OneL3: 1, NUMANodes: 1, L3s: 1, SharedCores: 1}},
		{"16-17", "0-1,3", PlaceCounts{Admitted: 1, OneNUMA: 1, OneL3: 1, NUMANodes: 1, L3s: 1, SharedCores: 2}},
		{"", "3-4", PlaceCounts{Admitted: 1, OneNUMA: 1, NUMANodes: 1, L3s: 2}},
		{"", "7-8", PlaceCounts{Admitted: 1, NUMANodes: 2, L3s: 2}},
	} {
		var got PlaceCounts
		u.count(&got, of(c.held), of(c.cpus))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s beside %q (-want +got):\n%s", c.cpus, c.held, diff)
		}
	}
}

// TestRunPlace runs a tiny benchmark completely.
func TestRunPlace(t *testing.T) {
	out := t.TempDir()
	r, err := RunPlace(t.Context(), PlaceOptions{
		Options: Options{Repetitions: 2, Quick: true, Out: out}, Machines: []PlaceMachine{tiny()}, Events: 300, Seed: 1, Calls: 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Arms) != len(placeArms()) {
		t.Fatalf("%d arms", len(r.Arms))
	}
	for _, a := range r.Arms {
		for i, c := range a.Counts {
			if c.Arrivals != 150 || c.Admitted == 0 {
				t.Errorf("%s, trace %d: %+v", a.Name, i, c)
			}
		}
	}
	for _, g := range r.Goals {
		if g.Verdict != Open {
			t.Errorf("a run of 300 events judges %q: %s", g.Goal, g.Verdict)
		}
	}
	for file, least := range map[string]int{"traces.csv": 1 + 2*len(placeArms()), "decisions.csv": 1 + 20*9, "summary.json": 0} {
		text, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Error(err)
			continue
		}
		if least == 0 {
			continue
		}
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || len(rows) < least {
			t.Errorf("%s: %d rows, %v", file, len(rows), err)
		}
	}
	if err := WritePlaceTable(&bytes.Buffer{}, r); err != nil {
		t.Error(err)
	}
}

// placeReport returns a report with known figures.
func placeReport() *PlaceReport {
	us := func(f float64) *float64 { return &f }
	counts := func(admitted, numa, l3, shared int) []PlaceCounts {
		c := PlaceCounts{
			Arrivals: 50_000, Admitted: admitted, OneNUMA: numa, OneL3: l3,
			NUMANodes: 2*admitted - numa, L3s: 2*admitted - l3, SharedCores: shared,
		}
		return []PlaceCounts{c, c, c}
	}
	r := &PlaceReport{
		Machine: Machine{Kernel: "6.12.0", CPUs: 2, Berth: "dev", Arch: "amd64"},
		Setup:   PlaceSetup{Events: 100_000, Repetitions: 3, Seed: 1, Calls: 2000},
		Latency: []LatencyLine{
			{State: stateEmpty, Request: "one container", CPUs: 64, Calls: 2000, P50: us(900), P99: us(950), P99CPU: us(950), Max: 1000},
			{State: stateScattered, Request: "one container", CPUs: 64, Calls: 2000, P50: us(20), P99: us(45.5), P99CPU: us(45.5), Max: 100},
			{State: stateScattered, Request: "one container", CPUs: 200, Calls: 2000, P50: us(200), P99: us(450), P99CPU: us(450), Max: 600},
			{State: stateScattered, Request: "more than is free", CPUs: 257, Refused: true, Calls: 2000, P50: us(0.2), P99: us(0.4), P99CPU: us(0.4), Max: 3},
		},
		Arms: []PlaceArm{
			{On: "small", Name: "berth", Promise: promiseNone, Counts: counts(40_000, 39_500, 38_000, 2_000)},
			{On: "small", Name: "kubelet", Promise: promiseNone, Counts: counts(40_000, 38_000, 30_000, 3_000)},
			{On: "small", Name: "kubelet uncore", Promise: promiseNone, Counts: counts(40_000, 39_000, 36_000, 2_500)},
			{On: "small", Name: "berth single", Promise: promiseSingle, Counts: counts(39_000, 39_000, 38_000, 1_000)},
			{On: "small", Name: "kubelet single", Promise: promiseSingle, Counts: counts(38_000, 38_000, 35_000, 1_000)},
		},
		Notes: []string{"a note"},
	}
	r.Comparisons = comparePlaces(r.Arms)
	r.Goals = judgePlace(r)
	return r
}

func TestPlaceTable(t *testing.T) {
	var out bytes.Buffer
	if err := WritePlaceTable(&out, placeReport()); err != nil {
		t.Fatal(err)
	}
	golden(t, "place.txt", out.Bytes())
}

func TestPlaceGoals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*PlaceReport)
		goal   string // a part of its text
		want   Verdict
	}{
		"fast enough":                  {func(*PlaceReport) {}, "up to 64", Met},
		"the empty machine is not it":  {func(r *PlaceReport) { *r.Latency[0].P99 = 1e6 }, "up to 64", Met},
		"too slow":                     {func(r *PlaceReport) { *r.Latency[1].P99 = 50.1 }, "up to 64", Missed},
		"large ones do not count":      {func(r *PlaceReport) { *r.Latency[2].P99 = 501 }, "up to 64", Met},
		"large ones have their own":    {func(r *PlaceReport) { *r.Latency[2].P99 = 501 }, "any number", Missed},
		"a refusal takes time":         {func(r *PlaceReport) { *r.Latency[3].P99 = 1.1 }, "refused", Missed},
		"every kind counts":            {slowBurst, "up to 64", Missed},
		"too few calls":                {func(r *PlaceReport) { r.Latency[1].P99 = nil }, "up to 64", Open},
		"none worse":                   {func(*PlaceReport) {}, "pods admitted, none worse", Met},
		"one pod fewer in one trace":   {admitted(1, 40_001, 40_000, 40_000), "pods admitted, none worse", Open},
		"one pod fewer in each":        {admitted(1, 40_001, 40_001, 40_001), "pods admitted, none worse", Missed},
		"a promise has its own goal":   {admitted(4, 45_000, 45_000, 45_000), "pods admitted, none worse", Met},
		"and that is missed":           {admitted(4, 45_000, 45_000, 45_000), "admitted, none worse, each", Missed},
		"fewer cores shared by a peer": {shared(1, 1_000), "another pod, none worse", Missed},
		"none shared by a peer":        {shared(1, 0), "another pod, none worse", Missed},
		"none shared by anybody":       {func(r *PlaceReport) { shared(0, 0)(r); shared(1, 0)(r); shared(2, 0)(r) }, "another pod, none worse", Met},
		"a tenth more in one L3":       {func(*PlaceReport) {}, "knows no L3", Met},
		"5 % more than one who aligns": {func(*PlaceReport) {}, "prefer-align", Missed},
		"a short trace":                {func(r *PlaceReport) { r.Setup.Events = 1000 }, "pods admitted, none worse", Open},
		"no such peer":                 {func(r *PlaceReport) { r.Arms = append(r.Arms[:2:2], r.Arms[3:]...) }, "prefer-align", Open},
	} {
		t.Run(name, func(t *testing.T) {
			r := placeReport()
			c.change(r)
			r.Comparisons = comparePlaces(r.Arms)
			var found []Goal
			for _, g := range judgePlace(r) {
				promised := strings.HasSuffix(g.Goal, "promise") && !strings.Contains(c.goal, "each")
				if strings.Contains(g.Goal, c.goal) && !promised {
					found = append(found, g)
				}
			}
			if len(found) != 1 || found[0].Verdict != c.want {
				t.Errorf("got %+v, want one goal %s", found, c.want)
			}
		})
	}
}

// slowBurst adds a request kind that is too slow.
func slowBurst(r *PlaceReport) {
	slow := 60.0
	r.Latency = append(r.Latency, LatencyLine{State: stateDepartures, Request: "static-burst", CPUs: 8, Calls: 5000, P50: &slow, P99: &slow, P99CPU: &slow})
}

// TestKindsOfRequests runs each timed kind of request on half full machines of the intended size. Feasible kinds always
// succeed, and the others never do.
func TestKindsOfRequests(t *testing.T) {
	machines := GeneratedMachines()
	large := machines[len(machines)-1].Topology
	m, err := alloc.Compile(large)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	var scratch alloc.Scratch
	for _, state := range []string{stateDepartures, stateScattered} {
		taken := make([]alloc.Taken, 10)
		for i := range taken {
			m.Hold(&taken[i], alloc.Holding{CPUs: occupied(state, m, large, random)})
		}
		met := func(k kind, cpus int) (n int) {
			r := k.of(cpus)
			for i := range taken {
				if _, refusal := m.Allocate(&scratch, &taken[i], &r); refusal.Code == alloc.Placed {
					n++
				}
			}
			return n
		}
		for _, k := range append(specialKinds(), plainKind()) {
			for _, cpus := range k.sizes {
				if n := met(k, cpus); n < len(taken) {
					t.Errorf("%s: %s of %d CPUs met in %d states of %d", state, k.name, cpus, n, len(taken))
				}
			}
		}
		for _, k := range impossibleKinds(state, large) {
			if n := met(k, k.sizes[0]); n > 0 {
				t.Errorf("%s: %s met in %d states", state, k.name, n)
			}
		}
	}
}

// admitted sets the number of pods that an arm admitted in each trace.
func admitted(arm int, pods ...int) func(*PlaceReport) {
	return func(r *PlaceReport) {
		for i, n := range pods {
			r.Arms[arm].Counts[i].Admitted = n
		}
	}
}

// shared sets the number of cores that an arm shared in every trace.
func shared(arm, cores int) func(*PlaceReport) {
	return func(r *PlaceReport) {
		for i := range r.Arms[arm].Counts {
			r.Arms[arm].Counts[i].SharedCores = cores
		}
	}
}

func TestInMicros(t *testing.T) {
	calls := make([]time.Duration, 1000)
	for i := range calls {
		calls[i] = time.Duration(i) * time.Microsecond
	}
	if p99 := quantile(calls, 0.99, time.Microsecond); p99 == nil || *p99 != 989 {
		t.Errorf("p99 %v", p99)
	}
	if p99 := quantile(calls[:100], 0.99, time.Microsecond); p99 != nil {
		t.Errorf("p99 of 100 calls: %v", *p99)
	}
}
