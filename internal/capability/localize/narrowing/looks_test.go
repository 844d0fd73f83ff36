package narrowing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

// machine is a kernel of files with two NUMA nodes, and one group with processes.
type machine struct {
	fstest.MapFS

	mu     sync.Mutex
	pids   []int
	tasks  int // threads, including those without a process
	memory locality.Memory
	unused int64 // of a group that the table does not name
	claims map[string]locality.Claim
	nodes  cpuset.Set
	looked int   // how often the processes were listed
	refuse error // the error of listing them
	// listing is called before the processes are listed.
	listing func()
}

func newMachine() *machine {
	m := &machine{MapFS: fstest.MapFS{}, nodes: node(0, 1)}
	var zones strings.Builder
	for node := range 2 {
		m.write(fmt.Sprintf("sys/devices/system/node/node%d/meminfo", node), fmt.Sprintf("Node %d MemTotal: 8388608 kB\nNode %d MemFree: 4194304 kB\n", node, node))
		fmt.Fprintf(&zones, "Node %d, zone   Normal\n  pages free     1048576\n        min      1000\n        low      1250\n        high     1500\n", node)
	}
	m.write("proc/zoneinfo", zones.String())
	m.write("proc/sys/kernel/sched_rt_runtime_us", "950000\n")
	m.write("proc/sys/kernel/sched_rt_period_us", "1000000\n")
	m.write("sys/devices/system/cpu/online", "0-1\n")
	return m
}

func (m *machine) write(name, text string) { m.MapFS[name] = &fstest.MapFile{Data: []byte(text)} }

// add adds a process with these lines of numa_maps, each for a mapping of 1 MiB.
func (m *machine) add(pid int, lines ...string) {
	stat := fmt.Sprintf("%d (db) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 %d 1", pid, pid*7)
	var all, policies strings.Builder
	for i, line := range lines {
		start := uint64(i+1) << 32
		fmt.Fprintf(&all, "%x-%x rw-p 00000000 00:00 0 \n", start, start+1<<20)
		fmt.Fprintf(&policies, "%x %s\n", start, line)
	}
	all.WriteString("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n")
	dir := fmt.Sprintf("proc/%d/", pid)
	thread := fmt.Sprintf("%stask/%d/", dir, pid)
	for name, text := range map[string]string{
		dir + "stat": stat, thread + "stat": stat, dir + "status": "VmPin:\t0 kB\n", dir + "maps": all.String(),
		dir + "pagemap": "12345678", dir + "mountinfo": "1 1 0:1 / / rw - ext4 /dev/sda rw\n", dir + "numa_maps": policies.String(), thread + "numa_maps": policies.String(),
	} {
		m.write(name, text)
	}
	m.pids = append(m.pids, pid)
}

func (m *machine) MovePages(int, []uint64, []int32, []int32, int) (int, error) {
	return 0, errors.New("a look moves nothing")
}

func (m *machine) Processes(string) ([]int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looked++
	if m.listing != nil {
		m.listing()
	}
	return m.pids, m.refuse
}

func (m *machine) threads(string) (int, error) { return m.tasks, nil }

// run makes a process run so many threads.
func (m *machine) run(pid, threads int) {
	m.tasks += threads
	for i := range threads - 1 {
		m.write(fmt.Sprintf("proc/%d/task/%d/numa_maps", pid, 10000+i), "100000000 default\n")
	}
}

func (m *machine) Memory(string) (locality.Memory, error) { return m.memory, nil }

func (m *machine) Claim(group string) (locality.Claim, error) {
	claim, has := m.claims[group]
	switch {
	case has:
		return claim, nil
	case strings.HasPrefix(group, "gone"):
		return locality.Claim{}, cgroup.ErrNoGroup
	case strings.HasPrefix(group, "hidden on"):
		on, err := cpuset.Parse(strings.TrimPrefix(group, "hidden on "))
		return locality.Claim{Nodes: on}, errors.Join(err, fs.ErrPermission)
	case strings.HasPrefix(group, "hidden"):
		return locality.Claim{}, fs.ErrPermission
	}
	return locality.Claim{Nodes: m.nodes, Bytes: m.unused}, nil
}

func (m *machine) looks() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looked
}

func node(ids ...int) (set cpuset.Set) {
	for _, id := range ids {
		set = set.Add(id)
	}
	return set
}

// pagesOf returns so many MiB in the format of numa_maps.
func pagesOf(mib, on int) string { return fmt.Sprintf("anon=1 N%d=%d kernelpagesize_kB=4", on, mib<<8) }

// TestWhatIsInTheWay checks that each additional effect of the write prevents narrowing, and that nothing else does.
func TestWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(m *machine)
		want    error
	}{
		"nothing elsewhere":            {func(m *machine) { m.add(9, "default "+pagesOf(900, 0)) }, nil},
		"no process":                   {func(*machine) {}, nil},
		"a little elsewhere":           {func(m *machine) { m.add(9, "default "+pagesOf(30, 1), "default "+pagesOf(34, 1)) }, nil},
		"too much elsewhere":           {func(m *machine) { m.add(9, "default "+pagesOf(30, 1), "default "+pagesOf(35, 1)) }, ErrElsewhere},
		"too much of all processes":    {func(m *machine) { m.add(9, "default "+pagesOf(60, 1)); m.add(10, "default "+pagesOf(60, 1)) }, ErrElsewhere},
		"huge pages elsewhere":         {func(m *machine) { m.add(9, "default huge N1=33 kernelpagesize_kB=2048") }, ErrElsewhere},
		"page cache elsewhere":         {func(m *machine) { m.add(9, "default file=/lib mapped=1 N1=20000 kernelpagesize_kB=4") }, ErrElsewhere},
		"charged elsewhere":            {func(m *machine) { m.memory.Movable = observed.Bytes{1 << 40, Slack + 1} }, ErrElsewhere},
		"charged elsewhere, a little":  {func(m *machine) { m.memory.Movable = observed.Bytes{1 << 40, Slack} }, nil},
		"a policy of a mapping":        {func(m *machine) { m.add(9, "default", "interleave:0-1 "+pagesOf(1, 0)) }, ErrPolicy},
		"a policy with two words":      {func(m *machine) { m.add(9, "default", "weighted interleave:0-1") }, ErrPolicy},
		"many preferred":               {func(m *machine) { m.add(9, "default", "prefer (many):0-1") }, ErrPolicy},
		"a policy that stays":          {func(m *machine) { m.add(9, "default", "bind=static:0", "weighted interleave=static:0-1", "local") }, nil},
		"a file that is named like it": {func(m *machine) { m.add(9, "default", "bind:0 file=/a=static mapped=1") }, ErrPolicy},
		"a policy of a thread": {func(m *machine) {
			m.add(9, "default")
			m.write("proc/9/task/11/numa_maps", "100000000 bind:1\n")
		}, ErrPolicy},
		"pinned memory": {func(m *machine) {
			m.add(9, "default")
			m.write("proc/9/status", "VmPin:\t4 kB\n")
		}, ErrPinned},
		"a device": {func(m *machine) {
			m.add(9, "default")
			m.write("proc/9/maps", "100000000-100001000 rw-s 00000000 00:05 7 /dev/vfio/3\n")
		}, ErrPinned},
		"a mapping that is too large": {func(m *machine) {
			m.add(9, "default")
			m.write("proc/9/maps", fmt.Sprintf("100000000-%x rw-p 00000000 00:00 0 \n", 1<<32+pages.LongestHeld+pages.Size))
		}, ErrTooLarge},
		"a heap that is too large, of which no thread is asked": {func(m *machine) {
			m.add(9, "default")
			m.write("proc/9/maps", fmt.Sprintf("100000000-%x rw-p 00000000 00:00 0 \n", 1<<32+pages.LongestHeld+pages.Size))
			m.write("proc/9/task/9/numa_maps", "it would be malformed")
		}, ErrTooLarge},
		"a process that ended":      {func(m *machine) { m.pids = []int{77} }, nil},
		"processes that hide":       {func(m *machine) { m.refuse = fs.ErrPermission }, fs.ErrPermission},
		"a process that hides":      {func(m *machine) { m.add(9, "default"); delete(m.MapFS, "proc/9/numa_maps") }, fs.ErrNotExist},
		"a call that may never end": {func(m *machine) { m.write("proc/sys/kernel/sched_rt_runtime_us", "-1\n") }, pages.ErrRealTime},
		"no room": {func(m *machine) {
			m.write("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 8388608 kB\nNode 0 MemFree: 4096 kB\n")
			m.add(9, "default "+pagesOf(30, 1))
		}, ErrNoRoom},
		"no room for what its limit allows": {func(m *machine) { m.unused = 5 << 30 }, ErrNoRoom},
		"room for what its limit allows":    {func(m *machine) { m.unused = 3 << 30 }, nil},
		"new processes at each look":        {func(m *machine) { m.listing = func() { m.add(100+m.looked, "default") } }, ErrGrows},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			c.prepare(m)
			l := New(Options{Kernel: m, Groups: m, Threads: m.threads, Clock: func() time.Duration { return 0 }})
			if err := l.look(t.Context(), "g", node(0)); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// running returns containers that run in groups of these names, with exclusive CPUs.
func running(groups ...string) (all []observed.Workload) {
	for _, group := range groups {
		all = append(all, observed.Workload{Group: group, Bound: true})
	}
	return all
}

// TestRoomForOthers checks that memory which other bound groups may still use does not count as room on their node. In
// the example 4 GiB are free, of which the kernel and Berth keep 170 MiB. A group that may use 3 GiB is then not bound
// to a node of which another group may use 2.
func TestRoomForOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others []observed.Workload
		claim  locality.Claim // of "other"
		want   error
	}{
		"nobody else":              {nil, locality.Claim{Nodes: node(0), Bytes: 2 << 30}, nil},
		"bound there":              {running("other"), locality.Claim{Nodes: node(0), Bytes: 2 << 30}, ErrNoRoom},
		"bound there, little left": {running("other"), locality.Claim{Nodes: node(0), Bytes: 512 << 20}, nil},
		"bound elsewhere":          {running("other"), locality.Claim{Nodes: node(1), Bytes: 2 << 30}, nil},
		"on all nodes":             {running("other"), locality.Claim{Nodes: node(0, 1), Bytes: 2 << 30}, nil},
		"in the pool":              {[]observed.Workload{{Group: "other"}}, locality.Claim{Nodes: node(0), Bytes: 2 << 30}, nil},
		"the group itself":         {running("g"), locality.Claim{}, nil},
		"without a group":          {running(""), locality.Claim{}, nil},
		"one that ended":           {running("gone", "other"), locality.Claim{Nodes: node(1)}, nil},
		"one that hides":           {running("hidden"), locality.Claim{}, fs.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			m.claims = map[string]locality.Claim{"g": {Nodes: node(0, 1), Bytes: 3 << 30}, "other": c.claim}
			l := New(Options{Kernel: m, Groups: m, Threads: m.threads, Clock: func() time.Duration { return 0 }})
			l.Take(c.others)
			if err := l.look(t.Context(), "g", node(0)); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestUnknownClaim checks a group whose claim on memory cannot be read. It prevents the binding of another group only
// where that group could leave it too little memory.
func TestUnknownClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		other   string
		unused  int64 // of the group itself
		threads int
		has, to cpuset.Set
		want    []error
	}{
		"needs room":                     {"hidden", 3 << 30, 1, node(0, 1), node(0), []error{fs.ErrPermission}},
		"needs none":                     {"hidden", 0, 1, node(0, 1), node(0), nil},
		"the other one is there":         {"hidden on 0", 3 << 30, 1, node(0, 1), node(0), []error{fs.ErrPermission}},
		"the other one is elsewhere":     {"hidden on 1", 3 << 30, 1, node(0, 1), node(0), nil},
		"the other one is bound to none": {"hidden on 0-1", 3 << 30, 1, node(0, 1), node(0), nil},
		"has too little anyway":          {"hidden", 5 << 30, 1, node(0, 1), node(0), []error{ErrNoRoom}},
		"widened":                        {"hidden", 3 << 30, 1, node(0), node(0, 1), nil},
		"widened, with room":             {"hidden", 3 << 30, 2001, node(0), node(0, 1), []error{ErrTooLong, fs.ErrPermission}},
		"widened, without room":          {"hidden", 5 << 30, 2001, node(0), node(0, 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			m.claims = map[string]locality.Claim{"g": {Nodes: c.has, Bytes: c.unused}}
			m.add(9, "default")
			m.run(9, c.threads)
			l := New(Options{Kernel: m, Groups: m, Threads: m.threads, Clock: func() time.Duration { return 0 }})
			l.Take(running(c.other, "gone"))
			err := l.look(t.Context(), "g", c.to)
			if (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
		})
	}
}

// TestRoomForOneOfTwo checks that only one of two groups that do not fit on a node together may have it. At the second
// check the first group may not have been narrowed yet.
func TestRoomForOneOfTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		m.claims = map[string]locality.Claim{"a": {Nodes: node(0, 1), Bytes: 2 << 30}, "b": {Nodes: node(0, 1), Bytes: 2 << 30}}
		l := asker(t, m)
		l.Take(running("a", "b"))
		_, _ = l.May("a", node(0)), l.May("b", node(0))
		synctest.Wait()
		if err := l.May("a", node(0)); err != nil {
			t.Errorf("the first: %v", err)
		}
		if err := l.May("b", node(0)); !errors.Is(err, ErrNoRoom) {
			t.Errorf("the second: %v", err)
		}
		if err := l.May("b", node(1)); !errors.Is(err, errNotLooked) {
			t.Errorf("of another node: %v", err)
		}
		synctest.Wait()
		if err := l.May("b", node(1)); err != nil {
			t.Errorf("the second, of another node: %v", err)
		}
	})
}

// asker returns running Looks with a fake clock.
func asker(t *testing.T, m *machine) *Looks {
	t.Helper()
	began := time.Now()
	l := New(Options{Kernel: m, Groups: m, Threads: m.threads, Clock: func() time.Duration { return time.Since(began) }})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestMayCountsForAWhile checks that a result is valid for five seconds. After that a new check must happen before
// anything is narrowed.
func TestMayCountsForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		m.add(9, "default "+pagesOf(1, 1))
		l := asker(t, m)
		if err := l.May("g", node(0)); !errors.Is(err, errNotLooked) {
			t.Errorf("before the first look: %v", err)
		}
		synctest.Wait()
		if err := l.May("g", node(0)); err != nil {
			t.Errorf("after a look: %v", err)
		}
		if err := l.May("g", node(1)); !errors.Is(err, errNotLooked) {
			t.Errorf("of other nodes: %v", err)
		}
		synctest.Wait()
		time.Sleep(fresh)
		if err := l.May("g", node(1)); err != nil {
			t.Errorf("five seconds later: %v", err)
		}
		time.Sleep(time.Second)
		if err := l.May("g", node(1)); !errors.Is(err, errNotLooked) {
			t.Errorf("six seconds later: %v", err)
		}
		synctest.Wait()
		if err := l.May("g", node(1)); err != nil {
			t.Errorf("after the next look: %v", err)
		}
	})
}

// TestTwoQuestionsOfAGroup checks a group that cannot be narrowed to the nodes of its CPUs. The agent then asks about
// adding these nodes to the group's own, so both questions alternate. Each must have its own answer and its own check.
func TestTwoQuestionsOfAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		m.nodes = node(0)
		m.add(9, "default "+pagesOf(900, 0))
		l := asker(t, m)
		for second := range 5 {
			narrow, widen := l.May("g", node(1)), l.May("g", node(0, 1))
			if second > 0 && (!errors.Is(narrow, ErrElsewhere) || widen != nil) {
				t.Errorf("after %d s: to 1: %v, to 0-1: %v", second, narrow, widen)
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		if looks := m.looks(); looks > 4 {
			t.Errorf("its processes were listed %d times in five seconds", looks)
		}
	})
}

// TestWithin checks that a caller who can wait gets an answer although no goroutine runs the checks, as at the end of
// an agent. The caller must not wait longer than its context.
func TestWithin(t *testing.T) {
	t.Parallel()
	m := newMachine()
	m.add(9, "default "+pagesOf(1, 1))
	l := New(Options{Kernel: m, Groups: m, Threads: m.threads, Clock: func() time.Duration { return 0 }})
	ctx, cancel := context.WithCancel(t.Context())
	may := l.Within(ctx)
	if err := may("g", node(0)); err != nil {
		t.Errorf("a little elsewhere: %v", err)
	}
	m.add(10, "interleave:0-1 "+pagesOf(1, 0))
	if err := may("g", node(0)); !errors.Is(err, ErrPolicy) {
		t.Errorf("with a policy: %v", err)
	}
	if cancel(); !errors.Is(may("g", node(0)), context.Canceled) {
		t.Error("it does not end with its context")
	}
	m.nodes = node(0)
	if err := may("g", node(0, 1)); err != nil {
		t.Errorf("to give it a node beside its own, after that: %v", err)
	}
	m.add(8, "bind=relative:0")
	m.pids = []int{8}
	if err := may("g", node(0, 1)); !errors.Is(err, ErrRelative) {
		t.Errorf("with a relative policy: %v", err)
	}
	m.tasks = 2001
	if err := may("g", node(0, 1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("with 2001 threads: %v", err)
	}
	if err := (*Looks)(nil).Within(ctx)("g", node(0)); err != nil {
		t.Errorf("without looks: %v", err)
	}
}

// TestWidening checks that a group which keeps all its nodes may get others despite obstacles to losing a node, because
// no page moves. A memory policy is still an obstacle, because the kernel would rebind it.
func TestWidening(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make  func(m *machine)
		other bool // a group with node 1 cannot have node 0 only
	}{
		"much memory":     {func(m *machine) { m.memory.Movable = observed.Bytes{1: 1 << 30} }, true},
		"pinned":          {func(m *machine) { m.write("proc/9/status", "VmPin:\t8 kB\n") }, true},
		"nothing special": {func(*machine) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			m.add(9, "default "+pagesOf(1, 1))
			c.make(m)
			m.nodes = node(1)
			may := New(Options{Kernel: m, Groups: m, Threads: m.threads, Clock: func() time.Duration { return 0 }}).Within(t.Context())
			if err := may("g", node(0, 1)); err != nil {
				t.Errorf("to 0-1: %v", err)
			}
			if err := may("g", node(0)); (err != nil) != c.other {
				t.Errorf("to 0: %v", err)
			}
			m.add(10, "bind:1 "+pagesOf(1, 1))
			if err := may("g", node(0, 1)); !errors.Is(err, ErrPolicy) {
				t.Errorf("to 0-1 with a policy: %v", err)
			}
		})
	}
}

// mapped returns so many mappings.
func mapped(n int) []string { return slices.Repeat([]string{"default"}, n) }

// TestThreadsTakeTheirTime checks the limit of a second for a write. For each thread the kernel waits for all CPUs and
// visits the mappings of its process, and if a node is lost it also walks the memory.
func TestThreadsTakeTheirTime(t *testing.T) {
	t.Parallel()
	much := "default " + pagesOf(4096, 0)
	hidden := func(m *machine, threads int) { m.tasks, m.refuse = threads, fs.ErrPermission }
	for name, c := range map[string]struct {
		has, to cpuset.Set
		prepare func(m *machine)
		want    error
	}{
		"500 threads":             {node(0, 1), node(0), func(m *machine) { m.add(9, "default"); m.run(9, 500) }, nil},
		"501 threads":             {node(0, 1), node(0), func(m *machine) { m.add(9, "default"); m.run(9, 501) }, ErrTooLong},
		"501 of two processes":    {node(0, 1), node(0), func(m *machine) { m.add(8, "default"); m.run(8, 250); m.add(9, "default"); m.run(9, 251) }, ErrTooLong},
		"80 threads of 4 GiB":     {node(0, 1), node(0), func(m *machine) { m.add(9, much); m.run(9, 80) }, nil},
		"81 threads of 4 GiB":     {node(0, 1), node(0), func(m *machine) { m.add(9, much); m.run(9, 81) }, ErrTooLong},
		"46 of 4 GiB, two nodes":  {node(0, 1, 2), node(0), func(m *machine) { m.add(9, much); m.run(9, 46) }, ErrTooLong},
		"81 of huge pages":        {node(0, 1), node(0), func(m *machine) { m.add(9, "default huge N0=2048 kernelpagesize_kB=2048"); m.run(9, 81) }, nil},
		"widened, 2000 of 4 GiB":  {node(0), node(0, 1), func(m *machine) { m.add(9, much); m.run(9, 2000) }, nil},
		"widened, 2001":           {node(0), node(0, 1), func(m *machine) { m.add(9, much); m.run(9, 2001) }, ErrTooLong},
		"widened, no room":        {node(0), node(0, 1), func(m *machine) { m.unused = 8 << 30; hidden(m, 10000) }, nil},
		"widened, none, and more": {node(0), node(0, 1), func(m *machine) { m.unused = 8 << 30; hidden(m, 10001) }, ErrTooLong},
		"widened, with a policy":  {node(0), node(0, 1), func(m *machine) { m.add(9, "bind:0 "+pagesOf(1, 0)) }, nil},
		"widened, a large heap": {node(0), node(0, 1), func(m *machine) {
			m.add(9, "default")
			m.write("proc/9/maps", fmt.Sprintf("100000000-%x rw-p 00000000 00:00 0 \n", 1<<32+pages.LongestHeld+pages.Size))
			m.write("proc/9/task/9/numa_maps", "it would be malformed")
		}, nil},
		"widened, pages beside":    {node(0), node(0, 2), func(m *machine) { m.add(9, "default "+pagesOf(900, 1)) }, nil},
		"450 of 3000 mappings":     {node(0, 1), node(0), func(m *machine) { m.add(9, mapped(3000)...); m.run(9, 450) }, nil},
		"450 of 6000 mappings":     {node(0, 1), node(0), func(m *machine) { m.add(9, mapped(6000)...); m.run(9, 450) }, ErrTooLong},
		"widened, 10000 mappings":  {node(0), node(0, 1), func(m *machine) { m.add(9, mapped(12000)...); m.run(9, 1000) }, ErrTooLong},
		"widened, and no room":     {node(0), node(0, 1), func(m *machine) { m.unused = 8 << 30; m.add(9, mapped(12000)...); m.run(9, 1000) }, nil},
		"widened, hidden":          {node(0), node(0, 1), func(m *machine) { hidden(m, 2000) }, nil},
		"widened, 2001 are hidden": {node(0), node(0, 1), func(m *machine) { hidden(m, 2001) }, ErrTooLong},
		"widened in front, hidden": {node(1), node(0, 1), func(m *machine) { hidden(m, 1) }, fs.ErrPermission},
		"widened, always new ones": {node(0), node(0, 1), func(m *machine) { m.listing = func() { m.add(100+m.looked, "default") } }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			m.nodes = c.has
			c.prepare(m)
			l := New(Options{Kernel: m, Groups: m, Threads: m.threads, Clock: func() time.Duration { return 0 }})
			err := l.look(t.Context(), "g", c.to)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if errors.Is(err, ErrTooLong) && !strings.Contains(err.Error(), fmt.Sprint(m.tasks, " threads: the write would take too long")) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// slowly is a machine on which it takes a while to read the memory policy of a thread.
type slowly struct{ *machine }

func (s slowly) Open(name string) (fs.File, error) {
	if strings.Contains(name, "/task/") && strings.HasSuffix(name, "/numa_maps") {
		time.Sleep(10 * time.Millisecond)
	}
	return s.machine.Open(name)
}

// TestRestsAfterEachThread checks that a check works only a quarter of the time. While the kernel counts the pages of
// the first mapping, the process cannot map anything.
func TestRestsAfterEachThread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		m.add(9, "default")
		m.run(9, 100)
		began := time.Now()
		clock := func() time.Duration { return time.Since(began) }
		l := New(Options{Kernel: slowly{m}, Groups: m, Threads: m.threads, Clock: clock})
		if err := l.look(t.Context(), "g", node(0)); err != nil || clock() < 4*time.Second {
			t.Errorf("%v after %v, want 100 times 10 ms and three times as long between", err, clock())
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		before := clock()
		if err := l.look(ctx, "g", node(0)); !errors.Is(err, context.DeadlineExceeded) || clock()-before > time.Second+40*time.Millisecond {
			t.Errorf("%v after %v, want the end of the context", err, clock()-before)
		}
	})
}

// TestThreadsWherePagesStay checks that threads do not count on cgroup v1 unless cpuset.memory_migrate is set, because
// the kernel then does not walk their memory.
func TestThreadsWherePagesStay(t *testing.T) {
	t.Parallel()
	for migrate, want := range map[string]int{"0\n": 0, "1\n": 3} {
		h := plain.New(t)
		h.Write("proc/self/mountinfo", "26 25 0:23 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n")
		h.Write("sys/fs/cgroup/cpuset/db/cpuset.memory_migrate", migrate)
		h.Write("sys/fs/cgroup/cpuset/db/tasks", "1\n2\n3\n")
		if n, err := threads(h.Cgroups(), "db"); n != want || err != nil {
			t.Errorf("memory_migrate %q: %d threads, %v, want %d", migrate, n, err, want)
		}
	}
}

// TestRelativePolicies checks memory policies with MPOL_F_RELATIVE_NODES, of a mapping or a thread. Some kernels divide
// by zero when they rebind such a policy, so it also prevents a group from getting more nodes.
func TestRelativePolicies(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]cpuset.Set{"more nodes": node(0, 1, 2), "others beside": node(1, 2), "fewer": node(0)} {
		for line, want := range map[string]error{
			"bind=relative:0":                  ErrRelative,
			"interleave=relative|balancing:0":  ErrRelative,
			"weighted interleave=relative:0-1": ErrRelative,
			"bind=static:0":                    nil,
		} {
			for _, thread := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, thread %v", name, line, thread), func(t *testing.T) {
					t.Parallel()
					m := newMachine()
					m.nodes = node(0, 1)
					if name == "others beside" {
						m.nodes = node(1)
					}
					if thread {
						m.add(9, "default")
						m.write("proc/9/task/11/numa_maps", "100000000 "+line+"\n")
					} else {
						m.add(9, "default", line)
					}
					l := New(Options{Kernel: m, Groups: m, Threads: m.threads, Clock: func() time.Duration { return 0 }})
					if err := l.look(t.Context(), "g", to); !errors.Is(err, want) || (err == nil) != (want == nil) {
						t.Errorf("%v, want %v", err, want)
					}
				})
			}
		}
	}
}

// TestLooksThin checks that a group which cannot be narrowed is checked again after 1, 2, 4 minutes and so on, up to an
// hour. More frequent questions do not matter, and without questions the checks stop.
func TestLooksThin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		m.add(9, "interleave:0-1")
		l := asker(t, m)
		var at []int
		for second, before := 0, 0; second < 4*3600; second++ {
			err := l.May("g", node(0))
			if second > 0 && !errors.Is(err, ErrPolicy) {
				t.Fatalf("after %d s: %v", second, err)
			}
			synctest.Wait()
			if now := m.looks(); now > before {
				before = now
				at = append(at, second/60)
			}
			time.Sleep(time.Second)
		}
		if want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183}; !slices.Equal(at, want) {
			t.Fatalf("looked after minutes %v, want %v", at, want)
		}
		looks := m.looks()
		time.Sleep(24 * time.Hour)
		if now := m.looks(); now != looks {
			t.Errorf("%d looks while nobody asked", now-looks)
		}
		about := func() []string {
			l.mu.Lock()
			defer l.mu.Unlock()
			var groups []string
			for q := range l.asked {
				groups = append(groups, q.group)
			}
			return groups
		}
		if got := about(); !slices.Equal(got, []string{"g"}) {
			t.Errorf("questions about %q", got)
		}
		_ = l.May("other", node(0))
		synctest.Wait()
		if got := about(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("questions about %q, and the first one is a day old", got)
		}
	})
}

// TestRunEnds checks that the end of the agent does not wait for a running check.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		began, calls := time.Now(), 0
		for pid := range 100 {
			m.add(1000+pid, "default")
		}
		l := New(Options{Kernel: m, Groups: m, Threads: m.threads, Clock: func() time.Duration {
			calls++ // each check of a process takes an hour
			return time.Since(began) + time.Duration(calls)*time.Hour
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		_ = l.May("g", node(0))
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if passed := time.Since(began); passed > 0 {
			t.Errorf("it ended after %v", passed)
		}
	})
}

// TestNobodyLooks checks that nil Looks permit everything.
func TestNobodyLooks(t *testing.T) {
	t.Parallel()
	var l *Looks
	if err := l.May("g", node(0)); err != nil {
		t.Error(err)
	}
}
