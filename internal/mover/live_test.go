package mover_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/locality"
	"github.com/berth-project/berth/internal/mover"
	"github.com/berth-project/berth/internal/pages"
)

// bench is a mover on the running kernel, and a group for a loader.
type stage struct {
	testing.TB
	kernel pages.Kernel
	mover  *mover.Mover
	dir    string // of the group
	order  mover.Order
	nodes  int
}

// newStage makes a group and starts a mover, with an order for node 0.
func newStage(t testing.TB) *stage {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes groups; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	host, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	hier, err := host.Hierarchy(cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	group := fmt.Sprintf("berth-test-mover-%d", os.Getpid())
	s := &stage{TB: t, kernel: pages.Live(root), dir: filepath.Join("/", hier.Mount, group)}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	began := time.Now()
	s.mover = mover.New(mover.Options{
		Root: root, Host: host, Log: slog.New(slog.DiscardHandler),
		Clock: func() time.Duration { return time.Since(began) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.mover.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.order = mover.Order{Key: "a", Group: group, Local: cpuset.Set{}.Add(0)}
	nodes, err := filepath.Glob("/sys/devices/system/node/node[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	s.nodes = len(nodes)
	for id := range nodes {
		s.order.Nodes = append(s.order.Nodes, locality.Node{ID: id, Bytes: 1})
	}
	return s
}

// remove removes the group when its processes are gone.
func (s *stage) remove() {
	var err error
	for range 600 {
		if err = os.Remove(s.dir); err == nil {
			return
		}
		procs, _ := os.ReadFile(s.dir + "/cgroup.procs") // Nothing there: the next try says why.
		for pid := range strings.Lines(string(procs)) {
			if n, err := strconv.Atoi(strings.TrimSpace(pid)); err == nil {
				if p, err := os.FindProcess(n); err == nil {
					_ = p.Kill() // A fork of a loader; it may be gone.
				}
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.Error(err)
}

func twoNodes(t testing.TB) *stage {
	t.Helper()
	if _, err := os.Stat("/sys/devices/system/node/node1"); err != nil {
		t.Skip("one NUMA node; runs in the VM: make test")
	}
	return newStage(t)
}

func (s *stage) loader(kind string, mib, percent int) *loaded {
	s.Helper()
	return loader(s, s.dir, kind, mib, percent)
}

// pass carries out the order.
func (s *stage) pass() mover.Report {
	s.Helper()
	s.mover.Order(s.order)
	return s.done()
}

func (s *stage) done() mover.Report {
	s.Helper()
	for {
		r := s.mover.Reports()[0]
		if r.Phase == mover.Done {
			account(s, r)
			return r
		}
		select {
		case <-s.Context().Done():
			s.Fatal("the pass does not end")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// on counts the base pages of a region by node; those that are nowhere at -1.
func (s *stage) on(l *loaded) map[int]int {
	s.Helper()
	p, err := pages.Open(s.kernel, l.pid)
	if err != nil {
		s.Fatal(err)
	}
	var addresses []uint64
	for a := l.start; a < l.start+l.size; a += pages.Size {
		addresses = append(addresses, a)
	}
	nodes, err := p.Where(addresses, nil)
	if err != nil {
		s.Fatal(err)
	}
	count := map[int]int{}
	for _, n := range nodes {
		count[int(max(n, -1))]++
	}
	return count
}

// TestLiveNothingToMove walks a process whose memory all is local, and makes no call.
func TestLiveNothingToMove(t *testing.T) {
	s := newStage(t)
	for id := range s.nodes {
		s.order.Local = s.order.Local.Add(id)
	}
	l := s.loader("base", 16, 100)
	if r := s.pass(); r.Outcome != locality.Skipped || r.Calls != 0 || r.Err != nil {
		t.Errorf("%+v", r)
	}
	if on := s.on(l); on[-1] > 0 {
		t.Errorf("pages by node: %v", on)
	}
}

// TestLiveExit walks a group whose process ends: that is no failure.
func TestLiveExit(t *testing.T) {
	s := newStage(t)
	s.loader("base", 1, 100).stdin.Close()
	for range 3 {
		if r := s.pass(); r.Err != nil {
			t.Errorf("%+v", r)
		}
	}
}

// TestLiveMoves loads memory of each kind on both nodes, and moves it to the first.
func TestLiveMoves(t *testing.T) {
	const mib = 32
	const all = mib << 20 / pages.Size
	tests := []struct {
		kind    string
		percent int
		stay    int // base pages on node 1 afterwards
		left    map[locality.Left]int64
	}{
		{"base", 0, 0, nil},
		{"base", 43, 0, nil},
		{"base", 47, 0, nil},
		{"thp", 0, 0, nil},
		{"thp", 43, 0, nil},
		{"hugetlb", 50, 0, nil},
		{"shmem", 0, 0, nil},
		{"memfd", 10, 0, nil},
		{"written", 0, 0, nil},
		{"mlocked", 20, 0, nil},
		{"file", 0, all, nil},
		{"held", 0, 16, map[locality.Left]int64{locality.LeftBusy: 16}},
		{"forked", 0, all, map[locality.Left]int64{locality.LeftShared: 2 * all}},
		{"policy", 0, all, map[locality.Left]int64{locality.LeftPolicy: all}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s/%d", tt.kind, tt.percent), func(t *testing.T) {
			s := twoNodes(t)
			if tt.kind == "hugetlb" {
				pool(t, mib)
			}
			l := s.loader(tt.kind, mib, tt.percent)
			before, splits := s.on(l), counter(t, "thp_split_page ")
			huge := l.hugeKiB(t)
			if before[1] == 0 {
				t.Fatalf("nothing to move: %v, %s", before, l.line(t))
			}
			r := s.pass()
			after := s.on(l)
			if after[1] != tt.stay || after[0]+after[1] != before[0]+before[1] {
				t.Errorf("pages %v, then %v\n%+v\n%s", before, after, r, l.line(t))
			}
			for why, n := range tt.left {
				if r.Left[why] < n || r.Left[why] > n+n/10+600 {
					t.Errorf("left %s: %d, want about %d", why, r.Left[why], n)
				}
			}
			if r.Outcome != locality.Completed {
				t.Errorf("%+v", r)
			}
			if now := l.hugeKiB(t); now != huge || counter(t, "thp_split_page ") != splits {
				t.Errorf("%d KiB of huge pages, then %d; %d splits", huge, now, counter(t, "thp_split_page ")-splits)
			}
			t.Logf("%v, then %v: %+v", before, after, r)
		})
	}
}

// pool gives both nodes a pool of huge pages.
func pool(t *testing.T, mib int) {
	t.Helper()
	for id := range 2 {
		name := fmt.Sprintf("/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages", id)
		if err := os.WriteFile(name, []byte(strconv.Itoa(mib/2+4)), 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.WriteFile(name, []byte("0"), 0) }) // The guest ends anyway.
	}
}

// counter reads a counter of /proc/vmstat.
func counter(t testing.TB, name string) int {
	t.Helper()
	data, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut("\n"+string(data), "\n"+name)
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// hugeKiB is how much of the process is huge pages that the kernel made.
func (l *loaded) hugeKiB(t testing.TB) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", l.pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "AnonHugePages:")
	var n int
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLiveExitsMidway kills the process while its pages move.
func TestLiveExitsMidway(t *testing.T) {
	s := twoNodes(t)
	l := s.loader("base", 64, 0)
	s.order.Rate = 8 << 20
	s.mover.Order(s.order)
	s.moving(1)
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r := s.done()
	if r.Outcome != locality.Completed || len(r.Exited) != 1 || r.Exited[0].PID != l.pid || !errors.Is(r.Exited[0].Err, pages.ErrExited) {
		t.Errorf("%+v", r)
	}
}

// moving waits until so many calls were made.
func (s *stage) moving(calls int) mover.Report {
	s.Helper()
	for {
		r := s.mover.Reports()[0]
		if r.Calls >= calls {
			return r
		}
		if r.Phase == mover.Done || s.Context().Err() != nil {
			s.Fatalf("%+v", r)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestLiveCancel ends a pass within one call, and a second pass moves the rest.
func TestLiveCancel(t *testing.T) {
	s := twoNodes(t)
	l := s.loader("base", 64, 0)
	s.order.Rate = 8 << 20
	s.mover.Order(s.order)
	r := s.moving(2)
	s.mover.Cancel("a")
	if canceled := s.done(); !errors.Is(canceled.Err, mover.ErrCanceled) || canceled.Calls > r.Calls+1 {
		t.Errorf("%+v, canceled after %d calls", canceled, r.Calls)
	}
	s.order.Rate = 0
	if r := s.pass(); r.Outcome != locality.Completed || s.on(l)[1] != 0 {
		t.Errorf("%v: %+v", s.on(l), r)
	}
}

// TestLiveGrows has a process load more on the other node while its pages move: a second
// pass moves what the first one did not see.
func TestLiveGrows(t *testing.T) {
	s := twoNodes(t)
	l := s.loader("base", 32, 0)
	s.order.Rate = 16 << 20
	s.mover.Order(s.order)
	s.moving(1)
	l.again(t)
	if r := s.done(); r.Outcome != locality.Completed {
		t.Errorf("%+v", r)
	}
	s.order.Rate = 0
	if r := s.pass(); r.Err != nil || s.on(l)[1] != 0 {
		t.Errorf("%v: %+v", s.on(l), r)
	}
}

// TestLiveBystander moves the pages of one group, and not those of a process beside it.
func TestLiveBystander(t *testing.T) {
	s := twoNodes(t)
	other := loader(t, "-", "base", 16, 50)
	before := other.line(t)
	l := s.loader("base", 16, 50)
	r := s.pass()
	if now := other.line(t); now != before || s.on(l)[1] != 0 {
		t.Errorf("%s\nthen %s%+v", before, now, r)
	}
}
