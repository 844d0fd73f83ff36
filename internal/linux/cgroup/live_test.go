package cgroup_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/patience"
)

// spinEnv makes the test binary a process that only burns CPU.
const spinEnv = "BERTH_TEST_SPIN"

func TestMain(m *testing.M) {
	if os.Getenv(spinEnv) != "" {
		burn()
	}
	if os.Getenv(touchEnv) != "" {
		touch()
	}
	if os.Getenv(waitEnv) != "" {
		wait()
	}
	if os.Getenv(blindEnv) != "" {
		lookBlind()
	}
	os.Exit(m.Run())
}

// burn uses CPU until the process is killed.
func burn() {
	for n := 1; n != 0; n |= 1 {
		n += 2
	}
}

// live is one case against the running kernel, with its own group.
type live struct {
	*testing.T
	host    *cgroup.Host
	version int
	group   *scratch.Group
	name    string
}

// TestLive checks the kernel behavior on which Berth relies. The same table runs on v1 and v2: natively on the host's
// version, and in the VMs on both.
func TestLive(t *testing.T) {
	cases := []struct {
		name string
		run  func(*live)
	}{
		{"a limit reads back as it was set", (*live).limitReadsBack},
		{"a burst stays at or below the quota", (*live).burstRule},
		{"limits outside the kernel's range are refused", (*live).rangeRule},
		{"a child's ratio above its parent's", (*live).childRatio},
		{"usage and throttling are counted", (*live).counters},
		{"polling does not allocate", (*live).polling},
		{"memory is counted by node", (*live).memory},
		{"processes are found", (*live).processes},
		{"processes of another pid namespace", (*live).omitted},
		{"processes of a threaded group", (*live).threaded},
		{"effective CPUs follow the cpuset", (*live).effective},
		{"a removed group is noticed", (*live).removed},
		{"a group made again is another one", (*live).madeAgain},
		{"a value for half the period in force", (*live).doubled},
		{"a group that a controller lacks", (*live).partial},
		{"one handle claims a group", (*live).claim},
		{"the bounds of a quota", (*live).bounds},
		{"rewriting a quota hands it out again", (*live).rewrite},
		{"an idle group has no weight", (*live).idle},
	}
	host := liveHost(t)
	hier, err := host.Hierarchy(cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("layout %s, cpu %+v", host.Layout(), hier)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			name := scratch.Name("test-cgroup")
			g, err := scratch.New(host, "", name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			})
			c.run(&live{T: t, host: host, version: hier.Version, group: g, name: name})
		})
	}
}

func liveHost(t *testing.T) *cgroup.Host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make groups; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	host, err := cgroup.Open(root)
	if err != nil {
		t.Skipf("no cgroups here: %v; runs in the VM: make test", err)
	}
	for _, c := range cgroup.Controllers() {
		hier, err := host.Hierarchy(c)
		if err != nil {
			t.Skipf("%v; runs in the VM: make test", err)
		}
		if hier.ReadOnly {
			t.Skipf("%s is mounted read-only; runs in the VM: make test", hier.Mount)
		}
	}
	return host
}

// must fails the case on an error.
func (l *live) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// want fails the case unless err is of the class.
func (l *live) want(what string, err, class error) {
	l.Helper()
	if !errors.Is(err, class) {
		l.Errorf("%s: error %v, want %v", what, err, class)
	}
}

// spin starts a process that burns CPU in g.
func (l *live) spin(g *scratch.Group) int {
	l.Helper()
	exe, err := os.Executable()
	l.must(err)
	cmd := exec.CommandContext(l.Context(), exe)
	cmd.Env = append(os.Environ(), spinEnv+"=1", "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	l.must(cmd.Start())
	l.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = g.SetMax(unit.NoLimit, 100_000) // a killed process ends only when its group may run
		_ = cmd.Wait()
	})
	l.must(g.Attach(cmd.Process.Pid))
	return cmd.Process.Pid
}

// eventually waits for a condition that may take long on a busy machine.
func (l *live) eventually(what string, done func() bool) {
	l.Helper()
	l.must(patience.Until(l.Context(), 10*time.Millisecond, func() string {
		if done() {
			return ""
		}
		return what
	}))
}

func (l *live) bandwidth(g *scratch.Group) cgroup.Bandwidth {
	l.Helper()
	b, err := g.Handle().Bandwidth()
	l.must(err)
	return b
}

func (l *live) limitReadsBack() {
	for _, c := range []struct{ quota, period unit.Micros }{
		{50_000, 100_000},
		{1000, 1000},
		{unit.NoLimit, 1000},
		{1_000_000, 1_000_000},
		{1000, 1_000_000},
		{1_234_567, 100_003},
		{unit.NoLimit, 100_000},
	} {
		l.must(l.group.SetMax(c.quota, c.period))
		b := l.bandwidth(l.group)
		if b.Quota != c.quota || b.Period != c.period {
			l.Errorf("set %d every %d, got %+v", c.quota, c.period, b)
		}
		v, err := l.group.Handle().Read(cgroup.KnobMax)
		l.must(err)
		if want := cgroup.MaxValue(c.quota, c.period); v != want {
			l.Errorf("Read(%s) = %q, want %q", cgroup.KnobMax, v, want)
		}
	}
}

func (l *live) burstRule() {
	l.must(l.group.SetMax(20_000, 100_000))
	if !l.bandwidth(l.group).HasBurst {
		_, err := l.group.Handle().Read(cgroup.KnobBurst)
		l.want("burst on a kernel without it", err, cgroup.ErrNoKnob)
		return
	}
	l.must(l.group.SetBurst(20_000))
	v, err := l.group.Handle().Read(cgroup.KnobBurst)
	l.must(err)
	if v != "20000 100000" {
		l.Errorf("burst = %q", v)
	}
	l.want("burst above the quota", l.group.SetBurst(20_001), syscall.EINVAL)
	l.want("quota below the burst", l.group.SetMax(19_999, 100_000), syscall.EINVAL)
	if b := l.bandwidth(l.group); b.Quota != 20_000 || b.Burst != 20_000 {
		l.Errorf("after refusals: %+v", b)
	}
	l.must(l.group.SetMax(unit.NoLimit, 100_000))
	l.must(l.group.SetBurst(0))
}

func (l *live) rangeRule() {
	l.must(l.group.SetMax(50_000, 100_000))
	for _, c := range []struct{ quota, period unit.Micros }{
		{50_000, 999}, {50_000, 1_000_001}, {999, 100_000},
	} {
		l.want("limit "+string(cgroup.MaxValue(c.quota, c.period)), l.group.SetMax(c.quota, c.period), syscall.EINVAL)
	}
}

func (l *live) childRatio() {
	l.must(l.group.SetMax(20_000, 100_000))
	child, err := l.group.Sub("child")
	l.must(err)
	l.must(child.SetMax(20_000, 100_000))
	err = child.SetMax(30_000, 100_000)
	if l.version == 1 {
		l.want("child above its parent on v1", err, syscall.EINVAL)
		return
	}
	l.must(err)
}

func (l *live) counters() {
	l.must(l.group.SetMax(5000, 100_000))
	before, err := l.group.Handle().Usage()
	l.must(err)
	l.spin(l.group)
	l.eventually("usage and throttling grow", func() bool {
		use, err := l.group.Handle().Usage()
		l.must(err)
		throttling, err := l.group.Handle().Throttling()
		l.must(err)
		return use > before && throttling.Throttled > 2 && throttling.Time > 0 &&
			throttling.Periods >= throttling.Throttled
	})
}

func (l *live) polling() {
	l.must(l.group.SetMax(50_000, 100_000))
	for what, read := range map[string]func() error{
		"Usage":      func() error { _, err := l.group.Handle().Usage(); return err },
		"Throttling": func() error { _, err := l.group.Handle().Throttling(); return err },
	} {
		if n := testing.AllocsPerRun(100, func() { l.must(read()) }); n > 0 {
			l.Errorf("%s allocates %v times", what, n)
		}
	}
}

// memory compares memory.numa_stat with the memory that a process has touched.
func (l *live) memory() {
	if _, err := l.host.Hierarchy(cgroup.MemoryController); errors.Is(err, cgroup.ErrNoHierarchy) {
		l.Skip("no memory controller on this host; the virtual machines of test/kernel have it")
	}
	l.must(l.group.WithMemory())
	m, err := l.group.Handle().Memory()
	l.must(err)
	defer m.Close()
	l.touching()
	l.eventually("a process has pages of its own", func() bool {
		at, err := m.ByNode()
		l.must(err)
		current, err := m.Current()
		l.must(err)
		return slices.Max(append(at.Movable, 0)) >= touched/2 && current >= touched
	})
	if limit, limited, err := m.Limit(); err != nil || limited {
		l.Errorf("Limit = %d, %v, %v, want none", limit, limited, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, err := m.ByNode(); l.must(err) }); n > 0 {
		l.Errorf("ByNode allocates %v times", n)
	}
	l.must(l.group.Kill())
	l.eventually("the group is empty", func() bool {
		left, err := l.group.Handle().Procs()
		l.must(err)
		return len(left) == 0
	})
	sub, err := l.group.Sub("sub")
	l.must(err)
	// Tasks that have ended stay in the group, and appear in no list, until the kernel has released them.
	l.eventually("the memory controller for the group below", func() bool { return sub.WithMemory() == nil })
	gone, err := sub.Handle().Memory()
	l.must(err)
	defer gone.Close()
	l.must(sub.Close())
	if at, err := gone.ByNode(); !errors.Is(err, cgroup.ErrNoGroup) {
		l.Errorf("after the group was removed: %v, %v, want %v", at, err, cgroup.ErrNoGroup)
	}
}

func (l *live) processes() {
	sub, err := l.group.Sub("sub")
	l.must(err)
	a, b := l.spin(sub), l.spin(sub)
	both := []int{min(a, b), max(a, b)}
	got, err := l.group.Handle().Procs()
	l.must(err)
	if diff := cmp.Diff(both, got); diff != "" {
		l.Errorf("processes of the group and below (-want +got):\n%s", diff)
	}
	if at, err := l.host.PathOf(a); err != nil || at != sub.Path() {
		l.Errorf("PathOf = %q, %v, want %q", at, err, sub.Path())
	}
	if at, err := l.host.SoleGroup(both); err != nil || at != sub.Path() {
		l.Errorf("SoleGroup = %q, %v, want %q", at, err, sub.Path())
	}
	_, err = l.host.SoleGroup([]int{a})
	l.want("SoleGroup of one of two", err, cgroup.ErrNotSole)
	_, err = l.host.SoleGroup([]int{a, os.Getpid()})
	l.want("SoleGroup over two groups", err, cgroup.ErrNotSole)

	l.must(l.group.Kill())
	got, err = l.group.Handle().Procs()
	l.must(err)
	if len(got) > 0 {
		l.Errorf("after Kill: %v", got)
	}
	_, err = l.host.PathOf(1 << 30)
	l.want("PathOf without such a process", err, cgroup.ErrNoProcess)
	_, err = l.host.SoleGroup([]int{1 << 30})
	l.want("SoleGroup without such a process", err, cgroup.ErrNoProcess)
}

func (l *live) effective() {
	all, err := l.group.Handle().EffectiveCPUs()
	l.must(err)
	first, ok := all.Min()
	if !ok {
		l.Fatal("a new group has no CPU")
	}
	one := cpuset.Set{}.Add(first)
	l.must(l.group.SetCPUs(one))
	sub, err := l.group.Sub("sub")
	l.must(err)
	for _, g := range []*scratch.Group{l.group, sub} {
		if got, err := g.Handle().EffectiveCPUs(); err != nil || got != one {
			l.Errorf("effective CPUs of %s: %v, %v, want %v", g.Path(), got, err, one)
		}
	}
}

func (l *live) removed() {
	l.must(l.group.SetMax(50_000, 100_000))
	sub, err := l.group.Sub("sub")
	l.must(err)
	l.must(sub.SetMax(50_000, 100_000))
	fresh, err := l.host.Group(sub.Path())
	l.must(err)
	polled, err := l.host.Group(sub.Path())
	l.must(err)
	l.Cleanup(func() { fresh.Close(); polled.Close() })
	_, err = polled.Bandwidth()
	l.must(err)
	_, err = polled.Usage()
	l.must(err)
	_, err = polled.Throttling()
	l.must(err)
	l.must(sub.Close())

	for what, g := range map[string]*cgroup.Group{"fresh": fresh, "polled": polled} {
		for op, err := range allReads(g) {
			l.want(what+" "+op, err, cgroup.ErrNoGroup)
		}
	}
	dir, err := fresh.Dir(cgroup.CPU)
	l.must(err)
	l.want("write", hostwrite.Existing(dir, "cgroup.procs", "0"), hostfs.ErrGone)
	_, err = l.host.Group(sub.Path())
	l.want("opening", err, cgroup.ErrNoGroup)
}

func allReads(g *cgroup.Group) map[string]error {
	errs := map[string]error{"Has": g.Has(cgroup.CPU)}
	_, errs["Bandwidth"] = g.Bandwidth()
	_, errs["Read"] = g.Read(cgroup.KnobMax)
	_, errs["Usage"] = g.Usage()
	_, errs["Throttling"] = g.Throttling()
	_, errs["EffectiveCPUs"] = g.EffectiveCPUs()
	_, errs["Procs"] = g.Procs()
	_, errs["OwnProcs"] = g.OwnProcs()
	return errs
}

func (l *live) madeAgain() {
	old, err := l.host.Group(l.name)
	l.must(err)
	l.Cleanup(func() { old.Close() })
	before, err := old.ID(cgroup.CPU)
	l.must(err)
	l.must(l.group.Close())
	again, err := scratch.New(l.host, "", l.name)
	l.must(err)
	l.Cleanup(func() { l.must(again.Close()) })
	after, err := again.Handle().ID(cgroup.CPU)
	l.must(err)
	if before == after {
		l.Errorf("both have the identity %v", before)
	}
	for op, err := range allReads(old) {
		l.want(op, err, cgroup.ErrNoGroup)
	}
	l.must(again.Handle().Has(cgroup.CPU))
}

func (l *live) doubled() {
	l.must(l.group.SetMax(20_000, 100_000)) // as if the kernel had doubled "10000 50000"
	value := cgroup.MaxValue(10_000, 50_000)
	dir, file, content, err := l.group.Handle().Encode(cgroup.KnobMax, value)
	l.must(err)
	l.must(hostwrite.Existing(dir, file, content))
	now, err := l.group.Handle().Read(cgroup.KnobMax)
	l.must(err)
	if !cgroup.Same(cgroup.KnobMax, now, value) {
		l.Errorf("wrote %q to %s, in force is %q, want the same as %q", content, file, now, value)
	}
	_, _, _, err = l.group.Handle().Encode(cgroup.KnobMax, cgroup.MaxValue(10_000, 70_000))
	if l.version == 1 {
		l.want("a value for another period", err, cgroup.ErrPeriod)
	} else {
		l.must(err)
	}
}

// partial makes a group that exists in only one hierarchy (v1), or has no controllers (v2).
func (l *live) partial() {
	cpu, err := l.host.Hierarchy(cgroup.CPU)
	l.must(err)
	acct, err := l.host.Hierarchy(cgroup.CPUAcct)
	l.must(err)
	name := path.Join(l.group.Path(), "partial")
	root := l.host.Root()
	l.must(hostwrite.MakeDir(root, cpu.Mount+"/"+name))
	l.Cleanup(func() {
		if err := hostwrite.RemoveDir(root, cpu.Mount+"/"+name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.Error(err)
		}
	})
	g, err := l.host.Group(name)
	l.must(err)
	l.Cleanup(func() { g.Close() })
	if l.version == 2 {
		err := g.Has(cgroup.CPU)
		l.want("Has(cpu)", err, cgroup.ErrNoController)
		_, rerr := g.Bandwidth()
		l.want("Bandwidth", rerr, cgroup.ErrNoController)
		if err == nil || !strings.Contains(err.Error(), "cgroup.subtree_control") {
			l.Errorf("%v does not say where to enable it", err)
		}
	} else {
		l.must(g.Has(cgroup.CPU))
	}
	_, err = g.Usage()
	if acct.Mount == cpu.Mount {
		l.must(err)
	} else {
		l.want("Usage", err, cgroup.ErrNoGroup)
	}
	if set, err := g.EffectiveCPUs(); err != nil || set.IsEmpty() {
		l.Errorf("EffectiveCPUs = %v, %v", set, err)
	}
}

// rewrite checks that writing a quota grants it again at once, which is why Berth never rewrites an unchanged quota.
func (l *live) rewrite() {
	l.must(l.group.SetMax(1000, 1_000_000))
	l.spin(l.group)
	l.eventually("the group is throttled", func() bool {
		throttling, err := l.group.Handle().Throttling()
		l.must(err)
		return throttling.Throttled > 0
	})
	before, err := l.group.Handle().Usage()
	l.must(err)
	const much = unit.CPUTime(30 * time.Millisecond) // the quota grants that much in 30 s
	for range 1000 {
		l.must(l.group.SetMax(1000, 1_000_000))
		time.Sleep(5 * time.Millisecond)
		after, err := l.group.Handle().Usage()
		l.must(err)
		if after.Since(before) > much {
			return
		}
	}
	l.Errorf("1000 writes of a quota of 1 ms a second in about 5 s handed out less than %v", much.Duration())
}

// TestLiveSelf reads the group of the tests themselves.
func TestLiveSelf(t *testing.T) {
	host := liveHost(t)
	at, err := host.PathOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	g, err := host.Group(at)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	pids, err := g.Procs()
	if err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("own id %d not in %v, %v", os.Getpid(), pids, err)
	}
	if at == "" {
		_, err := host.SoleGroup([]int{os.Getpid()})
		if !errors.Is(err, cgroup.ErrNotSole) {
			t.Errorf("SoleGroup in the root: %v", err)
		}
		_, err = g.Bandwidth()
		if hier, _ := host.Hierarchy(cgroup.CPU); hier.Version == 2 && !errors.Is(err, cgroup.ErrNoKnob) {
			t.Errorf("limit of the root: %v", err)
		}
	}
}
