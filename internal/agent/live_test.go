package agent_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/test/patience"
)

// site is a real group on this kernel, with an agent beside it.
type site struct {
	t      *testing.T
	root   *hostfs.Root
	host   *cgroup.Host
	group  *scratch.Group
	dir    string
	listen string
	// pace is how many seconds of the agents' clock pass in a second. An agent that follows another has the same clock,
	// which was base at the time begun.
	pace  int
	base  time.Duration
	begun time.Time
}

func newSite(t *testing.T, name string) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("writes to cgroups: needs root; the VM runs it: make test")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	host, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, root: root, host: host, dir: t.TempDir(), listen: freeAddress(t), pace: 1, base: kernel.Monotonic(), begun: time.Now()}
	s.group = s.newGroup(name)
	s.write("agent.yaml", fmt.Sprintf(`workloadDir: workloads
stateDir: state
listen: %s
cpu-burst-config: {clusterStrategy: {sharePoolThresholdPercent: 100}}
`, s.listen))
	return s
}

// freeAddress returns an address on which no process listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (s *site) newGroup(name string) *scratch.Group {
	s.t.Helper()
	g, err := scratch.New(s.host, "", scratch.Name(name))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = g.Close() })
	if err := g.SetMax(50000, 100000); err != nil {
		s.t.Fatal(err)
	}
	return g
}

func (s *site) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) workload(policy string) {
	s.write("workloads/w.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: w, annotations: {koordinator.sh/cpuBurst: '%s'}}
spec: {cgroup: %s}
`, policy, s.group.Path()))
}

// hurries makes the clock of each agent eight times as fast, so that a test waits less for passes, pauses and second
// tries. The kernel's clock stays: the test must not depend on how much CPU time the agent sees in a second.
func (s *site) hurries() { s.pace = 8 }

// rounds returns the reloads that make an agent begin a pass in each second of its clock, because its loop sleeps by the
// clock of this machine. An agent with the clock of this machine needs none.
func (s *site) rounds() (reload <-chan os.Signal, end func()) {
	if s.pace == 1 {
		return nil, func() {}
	}
	signals, ended := make(chan os.Signal), make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		ticks := time.NewTicker(time.Second / time.Duration(s.pace))
		defer ticks.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
			}
			select {
			case <-ended:
				return
			case signals <- syscall.SIGHUP:
			}
		}
	})
	return signals, func() { close(ended); sending.Wait() }
}

// start runs the real agent. The returned function ends it as SIGTERM does.
func (s *site) start() (stop func() error) {
	s.t.Helper()
	path := filepath.Join(s.dir, "agent.yaml")
	cfg, err := manifest.LoadConfig(path)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	reload, end := s.rounds()
	go func() {
		defer end()
		done <- agent.Run(ctx, agent.Options{
			ConfigFile: path, Config: cfg, Version: "test", Root: s.root, Reload: reload,
			Clock: func() time.Duration { return s.base + time.Duration(s.pace)*time.Since(s.begun) }, Now: time.Now,
			Log: slog.New(slog.NewTextHandler(s.t.Output(), nil)),
		})
	}()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	s.t.Cleanup(func() { _ = stop() })
	return stop
}

// bandwidth returns the group's quota, period and burst as the kernel reports them.
func (s *site) bandwidth() string {
	s.t.Helper()
	g, err := s.host.Group(s.group.Path())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	b, err := g.Bandwidth()
	if err != nil {
		s.t.Fatal(err)
	}
	// On a starved machine the kernel doubles a period that its timer cannot follow, and also quota and burst
	// (sched_cfs_period_timer). The bandwidth is the same.
	for b.Period > usualPeriod && b.Quota > 0 {
		b.Quota, b.Period, b.Burst = b.Quota/2, b.Period/2, b.Burst/2
	}
	return fmt.Sprintf("%d/%d burst %d", b.Quota, b.Period, b.Burst)
}

// usualPeriod is the period that the tests give their groups, in microseconds.
const usualPeriod = 100000

// eventually waits for a bandwidth of the group. A busy machine may need long.
func (s *site) eventually(want string) {
	s.t.Helper()
	s.until(func() string {
		if got := s.bandwidth(); got != want {
			return fmt.Sprintf("bandwidth is %s, want %s", got, want)
		}
		return ""
	})
}

// until waits until look returns "".
func (s *site) until(look func() string) {
	s.t.Helper()
	if err := patience.Until(context.WithoutCancel(s.t.Context()), 50*time.Millisecond, look); err != nil {
		s.t.Fatal(err)
	}
}

// view returns the view that root's commands get.
func (s *site) view() string {
	s.t.Helper()
	text, err := window.View(s.t.Context(), filepath.Join(s.dir, "state"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *site) get(path string) string {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.listen+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// TestSpin is a helper process: the load of the live tests.
func TestSpin(*testing.T) {
	busy := os.Getenv("BERTH_TEST_SPIN") != ""
	for n := 0; busy; n++ {
		runtime.KeepAlive(n)
	}
}

// spin starts a busy process in the group.
func (s *site) spin() {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "/proc/self/exe", "-test.run=^TestSpin$")
	cmd.Env = append(os.Environ(), "BERTH_TEST_SPIN=1")
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if err := s.group.Attach(cmd.Process.Pid); err != nil {
		s.t.Fatal(err)
	}
}

func TestLiveRaisesServesAndRestores(t *testing.T) {
	s := newSite(t, "raise")
	s.workload(`{"policy":"auto"}`)
	before := s.bandwidth()
	stop := s.start()
	s.eventually("149998/100000 burst 50000")
	if got := s.get("/readyz"); got != "ok\n" {
		t.Errorf("/readyz: %q", got)
	}
	if got := s.get("/metrics"); !strings.Contains(got, `berth_cpu_quota_cpus{container="",namespace="",pod="",workload="w"} 1.49998`) {
		t.Errorf("/metrics lacks the quota:\n%s", got)
	}
	if got := s.get("/"); !strings.HasPrefix(got, "<!doctype html>") {
		t.Errorf("page: %.200s", got)
	}
	s.watched()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := s.bandwidth(); got != before {
		t.Errorf("after stop %s, before %s", got, before)
	}
}

// watched opens a stream, as an open page does, and leaves it open: the end of the agent closes it.
func (s *site) watched() {
	s.t.Helper()
	stream, err := window.Stream(s.t.Context(), filepath.Join(s.dir, "state"), window.StreamPath)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = stream.Close() })
	lines := bufio.NewReader(stream)
	for _, want := range []string{`"quota":{"limitCPUs":0.5,"nowCPUs":1.49998,`, `{"set":{"at":`} {
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, want) {
			s.t.Errorf("stream: no %s in %s: %v", want, line, err)
		}
	}
}

func TestLiveAbuserFallsBackToItsLimit(t *testing.T) {
	s := newSite(t, "abuser")
	// The test can exceed such a small limit even on a busy machine.
	if err := s.group.SetMax(5000, 100000); err != nil {
		t.Fatal(err)
	}
	s.workload(`{"policy":"cfsQuotaBurstOnly","cfsQuotaBurstPeriodSeconds":6}`)
	s.start()
	s.eventually("14998/100000 burst 0")
	s.spin()
	s.eventually("5000/100000 burst 0")
}

// A burst from before the agent belongs to its writer. It stays while the quota moves and when the agent ends.
func TestLiveForeignBurstStays(t *testing.T) {
	s := newSite(t, "foreign")
	if err := s.group.SetMax(5000, 100000); err != nil {
		t.Fatal(err)
	}
	if err := s.group.SetBurst(3000); err != nil {
		t.Fatal(err)
	}
	s.workload(`{"policy":"auto","cfsQuotaBurstPeriodSeconds":3}`)
	s.start()
	s.eventually("14998/100000 burst 3000")
	if got := s.view(); !strings.Contains(got, "another program's") {
		t.Errorf("status does not say whose the burst is:\n%s", got)
	}
	s.spin()
	s.eventually("5000/100000 burst 3000")
}

func TestLiveGroupIsRemovedAndMadeAgain(t *testing.T) {
	s := newSite(t, "again")
	s.workload(`{"policy":"cfsQuotaBurstOnly"}`)
	s.start()
	s.eventually("149998/100000 burst 0")
	if err := s.group.Close(); err != nil {
		t.Fatal(err)
	}
	s.until(func() string {
		if got := s.get("/metrics"); !strings.Contains(got, `berth_workload_state{container="",namespace="",pod="",state="Pending",workload="w"} 1`) {
			return "the workload of a removed group is not pending"
		}
		return ""
	})
	s.group = s.newGroup("again")
	s.eventually("149998/100000 burst 0")
}

func TestLiveSecondAgentIsRefused(t *testing.T) {
	s := newSite(t, "second")
	s.workload(`{"policy":"none"}`)
	s.start()
	s.waitReady()
	s.listen = freeAddress(t)
	s.write("agent.yaml", fmt.Sprintf("workloadDir: workloads\nstateDir: state\nlisten: %s\n", s.listen))
	second := s.start()
	if err := second(); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second agent on one stateDir: %v, want an error that names the holder", err)
	}
}

func (s *site) waitReady() {
	s.t.Helper()
	var dialer net.Dialer
	s.until(func() string {
		conn, err := dialer.DialContext(s.t.Context(), "tcp", s.listen)
		if err != nil {
			return err.Error()
		}
		_ = conn.Close()
		return ""
	})
}

// passes waits until the agent has begun and ended n more passes.
func (s *site) passes(n int) {
	s.t.Helper()
	count := func() int {
		const series = `berth_loop_step_seconds_count{step="second"} `
		_, after, _ := strings.Cut(s.get("/metrics"), series)
		text, _, _ := strings.Cut(after, "\n")
		number, err := strconv.Atoi(text)
		if err != nil {
			s.t.Fatalf("%s: %v", series, err)
		}
		return number
	}
	want := count() + n + 1 // A pass may be running.
	s.until(func() string {
		if got := count(); got < want {
			return fmt.Sprintf("pass %d, want %d", got, want)
		}
		return ""
	})
}

func TestLiveBlockedWayBackGoesAsFarAsItCan(t *testing.T) {
	s := newSite(t, "blocked")
	if err := s.group.SetMax(5000, 100000); err != nil {
		t.Fatal(err)
	}
	s.workload(`{"policy":"cfsQuotaBurstOnly","cfsQuotaBurstPeriodSeconds":10}`)
	s.start()
	s.eventually("14998/100000 burst 0")
	// The kernel refuses a quota below another writer's burst.
	if err := s.group.SetBurst(10000); err != nil {
		t.Fatal(err)
	}
	s.spin()
	s.eventually("10000/100000 burst 10000")
	if got := s.view(); !strings.Contains(got, "does not take the limit") {
		t.Errorf("status does not say what blocks the limit:\n%s", got)
	}
	time.Sleep(8 * time.Second) // retries leave the quota as low as possible
	if err := s.group.SetBurst(0); err != nil {
		t.Fatal(err)
	}
	s.eventually("5000/100000 burst 0")
}
