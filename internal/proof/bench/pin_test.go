package bench

import (
	"bytes"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// pinReport returns a report with known figures: the server's requests are slowed by the arm's factor.
func pinReport(n int, use float64, factors map[string]float64) *PinReport {
	r := &PinReport{
		Machine:     Machine{Kernel: "6.18", CPUs: 2, Cgroups: "v2", Berth: "test", Arch: "amd64"},
		Setup:       PinSetup{CPUs: 1, RequestsPerSec: 100, WorkMicros: 1500, NeighbourThreads: 2, ArmSeconds: 20, Seed: 1},
		Repetitions: 2,
	}
	one := repetitionWith[besidePinned]{Repetition{}, map[string]besidePinned{}}
	first, second := cpuset.Set{}.Add(0), cpuset.Set{}.Add(1)
	for _, name := range PinArms() {
		one.Repetition[name] = Outcome{Samples: slowed(n, factors[name]), Elapsed: 20 * time.Second, CPU: 3 * time.Second}
		one.beside[name] = besidePinned{server: first.Union(second)}
	}
	one.beside[SharedCPUs] = besidePinned{first.Union(second), first.Union(second), 1.8}
	one.beside[Pinned] = besidePinned{first, second, use}
	one.beside[PinnedAlone] = besidePinned{server: first}
	r.summarize([]repetitionWith[besidePinned]{one, one})
	r.Goals = judgePin(r)
	return r
}

func TestJudgePin(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       int
		use     float64
		factors map[string]float64
		want    string
	}{
		{"all as it should be", 12_000, 0.99, map[string]float64{SharedCPUs: 1.5}, "met met met met"},
		{"pinned is slow", 12_000, 0.99, map[string]float64{SharedCPUs: 1.5, Pinned: 1.2}, "met missed missed met"},
		{"fewer CPUs are slow alone, too", 12_000, 0.99, map[string]float64{SharedCPUs: 1.5, Pinned: 1.2, PinnedAlone: 1.2}, "met met met met"},
		{"the neighbour starves", 12_000, 0.9, map[string]float64{SharedCPUs: 1.5}, "met met met missed"},
		{"the neighbour does not show", 12_000, 0.99, map[string]float64{SharedCPUs: 1.1}, "missed n/a n/a met"},
		{"the machine is not quiet", 12_000, 0.99, map[string]float64{SharedCPUs: 1.5, AloneAgain: 1.2}, "n/a n/a n/a n/a"},
		{"too few for p99", 1500, 0.99, map[string]float64{SharedCPUs: 1.5}, "met met n/a met"},
		{"too few for anything", 50, 0.99, map[string]float64{SharedCPUs: 1.5}, "n/a n/a n/a n/a"},
	} {
		if got := verdicts(pinReport(c.n, c.use, c.factors).Goals); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPinTable(t *testing.T) {
	r := pinReport(12_000, 0.99, map[string]float64{SharedCPUs: 1.5, AloneAgain: 1.2})
	r.note(PinOptions{LoadOptions: LoadOptions{Options: Options{Machine: r.Machine, Quick: true}}, CPUs: 1})
	var out bytes.Buffer
	if err := WritePinTable(&out, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "pin.golden", out.Bytes())
}
