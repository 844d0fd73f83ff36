package agent

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	// burnsPart makes this binary a load. It is the first part of each CPU that its threads use, 0 to 1.
	burnsPart = "BERTH_TEST_BURNS"
	// burnPeriod is how long a thread needs to use its part. The emulated CPUs of a VM take turns of some ms.
	burnPeriod = 100 * time.Millisecond
	// third is the use of the online load while it is steady.
	third = "0.333"
	// warmUp is how long the boundary needs until a steady load has filled its window and offline work has grown.
	warmUp = 40 * time.Second
	// mostLooks bounds the answer to a surge: offline work gives back half of what it has at each look.
	mostLooks = 200
)

// part is what each thread of a load uses, and over ends it.
type part struct {
	of   float64
	over chan struct{}
}

// burn runs the child: a thread for each CPU uses its part until the input ends. Each line is the next part. The
// periods of the threads begin one after the other, so that the load is steady.
func burn(first string) error {
	n := runtime.NumCPU()
	runtime.GOMAXPROCS(n + 1) // Otherwise the runtime follows the CPUs of the group.
	var now atomic.Pointer[part]
	begin := func(text string) error {
		of, err := strconv.ParseFloat(text, 64)
		if before := now.Swap(&part{of, make(chan struct{})}); before != nil {
			close(before.over)
		}
		return err
	}
	if err := begin(first); err != nil {
		return err
	}
	began, lines := time.Now(), bufio.NewScanner(os.Stdin)
	for i := range n {
		go burnThread(&now, began.Add(burnPeriod*time.Duration(i)/time.Duration(n)))
	}
	for lines.Scan() {
		if err := begin(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// burnThread uses the present part of a CPU in periods, of which one begins at the given time. It does not catch up on
// periods in which it had no CPU.
func burnThread(now *atomic.Pointer[part], at time.Time) {
	runtime.LockOSThread()
	for {
		p := now.Load()
		if p.of < 1 {
			at = at.Add(time.Since(at).Truncate(burnPeriod) + burnPeriod)
			select {
			case <-time.After(time.Until(at)):
			case <-p.over:
				continue
			}
		}
		for goal := threadCPU() + time.Duration(p.of*float64(burnPeriod)); now.Load() == p && (p.of == 1 || threadCPU() < goal); {
			spin()
		}
	}
}

// spin takes 50,000 instructions. It is straight code, which an emulator executes fastest.
func spin() {
	a, b, c, d := 1, 2, 3, 4
	for range 1000 {
		a, b, c, d = a+b, b^c, c+d, d^a
		a, b, c, d = a+b, b^c, c+d, d^a
		a, b, c, d = a+b, b^c, c+d, d^a
		a, b, c, d = a+b, b^c, c+d, d^a
		a, b, c, d = a+b, b^c, c+d, d^a
		a, b, c, d = a+b, b^c, c+d, d^a
		a, b, c, d = a+b, b^c, c+d, d^a
		a, b, c, d = a+b, b^c, c+d, d^a
	}
	runtime.KeepAlive(a + b + c + d)
}

// threadCPU is the CPU time of this thread. The system call has no error for it.
func threadCPU() time.Duration {
	used, _ := kernel.ThreadCPUTime()
	return used
}

// surges is an agent beside offline hogs and an online load, each with a thread for each CPU, by the clock of the
// kernel. The first group is the offline one.
type surges struct {
	*benchHost

	cores   []isolate.Core
	policy  isolate.Policy
	handles [2]*cgroup.Group
	online  io.Writer
	// next is when the next pass of the agent is due.
	next   time.Duration
	ledger ledger
}

// ledger has what both sides used, for the comparison with the law.
type ledger struct {
	at   time.Duration
	used [2]unit.CPUTime
	// ran is what the machine used.
	ran unit.CPUTime
	// means are the last online means of a second.
	means []unit.CPUs
	// whole, busy, online, hogs and due are CPU times since the ledger began: of the machine, in which it was busy, of
	// both sides, and of the cores that the law gives to offline work.
	whole, busy, online, hogs, due time.Duration
}

// newSurges starts the loads and the agent. A threshold of 0 is for an agent without a boundary, with idle hogs that
// may use every CPU.
func newSurges(b *testing.B, threshold int) *surges {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Skip("makes cgroups: needs root")
	}
	config := ""
	if threshold > 0 {
		config = fmt.Sprintf("resource-threshold-config: {clusterStrategy: {enable: true, cpuSuppressThresholdPercent: %d}}\n", threshold)
	}
	s := &surges{benchHost: newBenchHost(b, 2, config), policy: isolate.Policy{Threshold: threshold}}
	s.live = true
	top, err := topology.Discover(s.root.FS())
	s.must(err)
	s.cores = isolate.Movable(top, top.Online, top.Reserved.Union(top.Isolated))
	if len(s.cores) < 4 || s.cores[0].CPUs.Size() < 2 {
		b.Skipf("%d cores: no four of two threads; a VM has them: go run ./test/kernel/vm bench -cores 8", len(s.cores))
	}
	for i, g := range s.groups {
		s.must(g.SetMax(unit.NoLimit, 100_000))
		s.handles[i], err = s.host.Group(g.Path())
		s.must(err)
		b.Cleanup(func() { _ = s.handles[i].Close() })
		s.workload(i, "labels: {koordinator.sh/qosClass: "+[]string{"BE", "LS"}[i]+"}")
	}
	if threshold == 0 {
		s.must(s.groups[0].SetPrecedence(cgroup.Idle))
	}
	s.burns(0, "1")
	s.online = s.burns(1, third)
	s.start()
	s.steps(warmUp)
	return s
}

func (s *surges) must(err error) {
	s.b.Helper()
	if err != nil {
		s.b.Fatal(err)
	}
}

// burns starts a load in a group.
func (s *surges) burns(group int, first string) io.Writer {
	s.b.Helper()
	cmd := exec.CommandContext(s.b.Context(), os.Args[0])
	// Go's scheduler would interrupt each thread every 10 ms, and wake another that gives it the CPU back. An emulated CPU
	// that waits for its turn then leaves a part of its time idle. A collection would wait for loops without end.
	cmd.Env, cmd.Stderr = append(os.Environ(), burnsPart+"="+first, "GODEBUG=asyncpreemptoff=1", "GOGC=off"), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	s.must(err)
	s.must(cmd.Start())
	s.b.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	s.must(s.groups[group].Attach(cmd.Process.Pid))
	return in
}

// step waits until the agent's next pass is due, and runs it.
func (s *surges) step() {
	time.Sleep(s.next - s.clock())
	pause := s.c.pass()
	s.next = s.clock() + pause
	s.account()
}

// steps runs passes for a time.
func (s *surges) steps(long time.Duration) {
	for end := s.clock() + long; s.clock() < end; {
		s.step()
	}
}

// begins empties the ledger.
func (s *surges) begins() {
	s.ledger = ledger{at: s.ledger.at, used: s.ledger.used, ran: s.ledger.ran, means: s.ledger.means}
}

// account adds the last second, or more if the passes took longer, to the ledger.
func (s *surges) account() {
	l, now := &s.ledger, s.clock()
	passed := now - l.at
	if passed < time.Second {
		return
	}
	var used [2]unit.CPUTime
	ran, err := kernel.CPUBusy(s.root)
	s.must(err)
	for i, g := range s.handles {
		used[i], err = g.Usage()
		s.must(err)
	}
	if l.at > 0 {
		hogs, online := used[0].Since(l.used[0]), used[1].Since(l.used[1])
		l.means = append(l.means, online.Seconds().Per(passed))
		l.means = l.means[max(0, len(l.means)-int(isolate.Window/time.Second)):]
		cpus := s.cores[0].CPUs.Size()
		l.whole += passed * time.Duration(len(s.cores)*cpus)
		l.hogs, l.online, l.busy = l.hogs+hogs.Duration(), l.online+online.Duration(), l.busy+ran.Since(l.ran).Duration()
		l.due += passed * time.Duration(isolate.Law(s.policy, s.cores, slices.Max(l.means)).Target*cpus)
	}
	l.at, l.used, l.ran = now, used, ran
}

// reports reports what is in the ledger.
func (s *surges) reports(b *testing.B) {
	b.Helper()
	l := s.ledger
	per := func(part, of time.Duration) float64 { return 100 * part.Seconds() / of.Seconds() }
	b.ReportMetric(0, "ns/op") // The length of a round is the benchmark's choice.
	b.ReportMetric(per(l.hogs, l.whole-l.online), "%idle-time")
	b.ReportMetric(per(l.online, l.whole), "%online")
	b.ReportMetric(per(l.busy, l.whole), "%busy")
	if s.policy.Threshold > 0 {
		b.ReportMetric(per(l.hogs, l.due), "%of-law")
	}
	b.Logf("%v of %v: online used %v, hogs %v, the law gives %v", l.whole, len(s.cores), l.online, l.hogs, l.due)
}

// sides returns how many cores each side has by the kernel.
func (s *surges) sides() (offline, online int) {
	var sides [2]int
	for i, g := range s.handles {
		cpus, err := g.EffectiveCPUs()
		s.must(err)
		sides[i] = coresIn(s.cores, cpus)
	}
	return sides[0], sides[1]
}

// coresIn returns how many cores lie in a set.
func coresIn(cores []isolate.Core, cpus cpuset.Set) (n int) {
	for _, c := range cores {
		if c.CPUs.IsSubsetOf(cpus) {
			n++
		}
	}
	return n
}

// BenchmarkIsolatedIdleTime measures which part of the time that steady online work leaves idle is used by offline
// work: beside an agent without a boundary, which is attainable, and with a boundary of two thresholds. A round takes
// 10 s.
func BenchmarkIsolatedIdleTime(b *testing.B) {
	for _, threshold := range []int{0, 65, 100} {
		name := "no boundary"
		if threshold > 0 {
			name = fmt.Sprintf("threshold %d", threshold)
		}
		b.Run(name, func(b *testing.B) {
			s := newSurges(b, threshold)
			s.begins()
			for b.Loop() {
				s.steps(10 * time.Second)
			}
			s.reports(b)
		})
	}
}

// answer is how the agent answered a surge: the looks and the time until the online side had its first core more, and
// until it had all cores above the guarantee of offline work. Each look is a pass, which reads /proc/stat once at most.
type answer struct {
	first, all         int
	firstTook, allTook time.Duration
}

// BenchmarkIsolatedSurge measures the answer to surges: online work that used a third of the CPUs uses as many as it
// can get, until it has all cores above offline work's guarantee. A round is a surge, at any time between two looks,
// and the time until offline work has as many cores again. The threshold is 100, so that offline work has most to give
// back.
func BenchmarkIsolatedSurge(b *testing.B) {
	s, random := newSurges(b, 100), rand.New(rand.NewPCG(3, 1))
	low := isolate.Law(s.policy, s.cores, 0).Low
	size, _ := s.sides()
	if size <= low {
		b.Fatalf("offline work has %d cores, and gives none back below %d", size, low)
	}
	s.begins()
	var all []answer
	for b.Loop() {
		before, _ := s.sides()
		a := s.surge(random.Float64(), low)
		b.Logf("from %d cores: %+v", before, a)
		all = append(all, a)
		s.says(third)
		for has := low; has < size; has, _ = s.sides() {
			s.step()
		}
	}
	reportAnswers(b, all)
	s.reports(b)
}

// says gives the online load its next part.
func (s *surges) says(part string) {
	s.b.Helper()
	_, err := fmt.Fprintln(s.online, part)
	s.must(err)
}

// surge begins a surge after a part of the pause before the next look.
func (s *surges) surge(after float64, low int) (a answer) {
	s.b.Helper()
	_, before := s.sides()
	time.Sleep(time.Duration(after * float64(s.next-s.clock())))
	s.says("1")
	began := s.clock()
	for look := 1; ; look++ {
		s.step()
		took := s.clock() - began
		_, has := s.sides()
		if has > before && a.first == 0 {
			a.first, a.firstTook = look, took
		}
		if has >= len(s.cores)-low {
			a.all, a.allTook = look, took
			return a
		}
		if look > mostLooks {
			s.b.Fatalf("%d looks after a surge online work has %d cores", look, has)
		}
	}
}

// reportAnswers reports the median and the most of the answers.
func reportAnswers(b *testing.B, all []answer) {
	b.Helper()
	for name, of := range map[string]func(answer) float64{
		"looks/first": func(a answer) float64 { return float64(a.first) },
		"looks/all":   func(a answer) float64 { return float64(a.all) },
		"ms/first":    func(a answer) float64 { return float64(a.firstTook.Microseconds()) / 1000 },
		"ms/all":      func(a answer) float64 { return float64(a.allTook.Microseconds()) / 1000 },
	} {
		var values []float64
		for _, a := range all {
			values = append(values, of(a))
		}
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], strings.Replace(name, "/", "-p50/", 1))
		b.ReportMetric(values[len(values)-1], strings.Replace(name, "/", "-max/", 1))
	}
	b.ReportMetric(float64(len(all)), "surges")
}
