package mover_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// stage is a mover on the running kernel, with a group for a loader.
type stage struct {
	testing.TB
	kernel pages.Kernel
	twin   *twin
	// calling, if set, is called with the pages of each call that moves pages, before the call.
	calling func(list []uint64)
	// asked counts the pages whose node was only read.
	asked atomic.Int64
	mover *mover.Mover
	// every is how often done asks whether a pass is done.
	every time.Duration
	dir   string // of the group
	order mover.Order
	nodes int
}

// newStage makes a group and starts a mover, with an order for node 0.
func newStage(t testing.TB) *stage {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes groups; runs in the VM: make verify-kernels")
	}
	s := &stage{TB: t, every: 20 * time.Millisecond}
	host, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	hier, err := host.Hierarchy(cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	if s.dir, err = os.MkdirTemp(filepath.Join("/", hier.Mount), "berth-test-mover-"); err != nil { //nolint:usetesting // a control group
		t.Fatal(err)
	}
	s.order.Group = filepath.Base(s.dir)
	t.Cleanup(s.remove)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.mover.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// open makes a mover on the running kernel, and an order without a group.
func (s *stage) open() (*cgroup.Host, error) {
	root, err := hostfs.Open("/")
	if err != nil {
		return nil, err
	}
	host, err := cgroup.Open(root)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	s.kernel = pages.Live(root)
	s.twin = &twin{Kernel: s.kernel}
	s.mover = mover.New(mover.Options{
		Root: root, Host: host, Log: slog.New(slog.DiscardHandler), Kernel: followed{s.twin, s},
		Clock: func() time.Duration { return time.Since(began) },
	})
	s.order = mover.Order{Key: "a", Local: cpuset.Set{}.Add(0)}
	nodes, err := filepath.Glob("/sys/devices/system/node/node[0-9]*")
	s.nodes = len(nodes)
	for id := range nodes {
		s.order.Nodes = append(s.order.Nodes, locality.Node{ID: id, Bytes: 1})
	}
	return host, err
}

// followed is the kernel as the mover of a stage sees it.
type followed struct {
	pages.Kernel
	stage *stage
}

// MovePages passes the pages to the stage's calling function if they are to move, and makes the call.
func (f followed) MovePages(pid int, addresses []uint64, nodes, status []int32, flags int) (int, error) {
	if nodes != nil && f.stage.calling != nil {
		f.stage.calling(addresses)
	}
	if nodes == nil {
		f.stage.asked.Add(int64(len(addresses)))
	}
	return f.Kernel.MovePages(pid, addresses, nodes, status, flags)
}

// moveAlone carries out an order in its own process.
func moveAlone(spec string) error {
	s := &stage{}
	if _, err := s.open(); err != nil {
		return err
	}
	if _, err := fmt.Sscan(spec, &s.order.Group, &s.order.Rate); err != nil {
		return err
	}
	s.mover.Order(s.order)
	return s.mover.Run(context.Background()) //nolint:forbidigo // a process of its own, without a test
}

// remove removes the group when its processes are gone.
func (s *stage) remove() {
	var err error
	for range 600 {
		if err = os.Remove(s.dir); err == nil {
			return
		}
		procs, _ := os.ReadFile(s.dir + "/cgroup.procs") // Nothing there: the next attempt reports the reason.
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
		t.Skip("one NUMA node; runs in the VM: make verify-kernels")
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
		case <-time.After(s.every):
		}
	}
}

// on counts the base pages of a region by node. Pages on no node are counted at -1.
func (s *stage) on(l *loaded) map[int]int {
	s.Helper()
	p, err := pages.Open(s.kernel, l.pid)
	if err != nil {
		s.Fatal(err)
	}
	nodes, err := p.Where(l.addresses(), nil)
	if err != nil {
		s.Fatal(err)
	}
	count := map[int]int{}
	for _, n := range nodes {
		count[int(max(n, -1))]++
	}
	return count
}

// TestLiveNothingToMove: a pass over a process with only local memory makes no call.
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

// TestLiveExit: a pass over a group whose process ends is not a failure.
func TestLiveExit(t *testing.T) {
	s := newStage(t)
	s.loader("base", 1, 100).stdin.Close()
	for range 3 {
		if r := s.pass(); r.Err != nil {
			t.Errorf("%+v", r)
		}
	}
}

// TestLiveMoves loads memory of each kind on both nodes and moves it to the first node.
func TestLiveMoves(t *testing.T) {
	const mib = 16
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
				// Other memory of the process is left for the same reason: the heap of the runtime, possibly in huge
				// pages. A forked process counts twice.
				if r.Left[why] < n || r.Left[why] > n+n/2+600 {
					t.Errorf("left %s: %d, want about %d", why, r.Left[why], n)
				}
			}
			if r.Outcome == locality.Failed {
				t.Errorf("%+v", r)
			}
			if now := l.hugeKiB(t); now != huge || counter(t, "thp_split_page ") != splits {
				t.Errorf("%d KiB of huge pages, then %d; %d splits", huge, now, counter(t, "thp_split_page ")-splits)
			}
			t.Logf("%v, then %v: %+v", before, after, r)
		})
	}
}

// TestLiveFewAreAsked checks that numa_maps and pagemap of the running kernel agree on a mapping whose pages are all on
// one node: a pass then reads the nodes of a sample only.
func TestLiveFewAreAsked(t *testing.T) {
	const mib, all = 128, 128 << 20 / pages.Size
	for _, tt := range []struct {
		kind    string
		percent int
		few     bool
	}{{"base", 0, true}, {"thp", 0, true}, {"base", 50, false}} {
		t.Run(fmt.Sprintf("%s/%d", tt.kind, tt.percent), func(t *testing.T) {
			s := twoNodes(t)
			l := s.loader(tt.kind, mib, tt.percent)
			before := s.on(l)
			r := s.pass()
			after, asked := s.on(l), s.asked.Load()
			if after[1] > 0 || after[0] != before[0]+before[1] || r.Bytes() < int64(before[1]*pages.Size) {
				t.Errorf("pages %v, then %v\n%+v", before, after, r)
			}
			if few := asked < all/4; few != tt.few {
				t.Errorf("asked for the nodes of %d pages, of %d in the mapping", asked, all)
			}
			t.Logf("%v, then %v, asked for %d", before, after, asked)
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

// hugeKiB returns how much memory of the process is in transparent huge pages.
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

// TestLiveExitsMidway: a process is killed while its pages move. The pass completes and reports the exit.
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

// moving waits until the mover has made the given number of calls.
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

// TestLiveCancel: a canceled pass ends within one call, and a second pass moves the remaining pages.
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

// TestLiveGrows: a process loads more memory on the other node while its pages move. A second pass moves the pages that
// the first pass did not see.
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

// TestLiveBystander: a pass over one group moves no page of a process outside of it.
func TestLiveBystander(t *testing.T) {
	s := twoNodes(t)
	other := loader(t, "-", "base", 16, 50)
	before := other.line(t)
	l := s.loader("base", 16, 50)
	r := s.pass()
	if now := other.isAgain(t, before); now != before || s.on(l)[1] != 0 {
		t.Errorf("%s\nthen %s%+v", before, now, r)
	}
}

// TestLiveShared: another process maps the memory of the first. The memory moves if both are in the group. Otherwise
// nothing changes for the other process.
func TestLiveShared(t *testing.T) {
	const mib = 8
	const all = mib << 20 / pages.Size
	t.Run("insider", func(t *testing.T) {
		s := twoNodes(t)
		first := s.loader("memfd", mib, 10)
		second := first.join(t, s.dir, mib)
		r := s.pass()
		if r.Err != nil || len(r.Warnings) > 0 || r.Left[locality.LeftShared] >= all {
			t.Errorf("%+v", r)
		}
		for _, l := range []*loaded{first, second} {
			if on := s.on(l); on[0] != all {
				t.Errorf("%v: %s%+v", on, l.line(t), r)
			}
		}
	})
	t.Run("bystander", func(t *testing.T) {
		s := twoNodes(t)
		first := s.loader("memfd", mib, 10)
		s.loader("base", mib, 10)
		other := first.join(t, "-", mib)
		before, was := other.line(t), s.on(first)
		r := s.pass()
		if r.Err != nil || r.Left[locality.LeftShared] < int64(was[1]) || r.Bytes() == 0 {
			t.Errorf("%v: %+v", was, r)
		}
		if now := other.isAgain(t, before); now != before || s.on(first)[1] != was[1] {
			t.Errorf("%s\nthen %s%v, then %v", before, now, was, s.on(first))
		}
	})
}

// TestLiveKilled: a mover is killed while pages move. No page is lost, and the next mover moves the remaining pages.
func TestLiveKilled(t *testing.T) {
	s := twoNodes(t)
	l := s.loader("base", 32, 0)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	alone := exec.CommandContext(t.Context(), self)
	alone.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", moverEnv, s.order.Group, 8<<20))
	if err := alone.Start(); err != nil {
		t.Fatal(err)
	}
	for s.on(l)[0] == 0 && t.Context().Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	_ = alone.Process.Kill()
	_ = alone.Wait() // It was killed.
	if on := s.on(l); on[0] == 0 || on[1] == 0 || on[-1] != 0 {
		t.Errorf("pages by node after the kill: %v", on)
	}
	if r := s.pass(); r.Outcome != locality.Completed || s.on(l)[1] != 0 {
		t.Errorf("%v: %+v", s.on(l), r)
	}
}

// TestLiveFullNode: a pass to a nearly full node ends for lack of room above the watermarks. The kernel swaps out and
// kills nothing for it.
func TestLiveFullNode(t *testing.T) {
	s := smallNodes(t)
	swapOn(t)
	const mib, spare = 64, 110
	zones, err := pages.ReadZones(s.kernel)
	if err != nil {
		t.Fatal(err)
	}
	free := func() pages.NodeMemory {
		m, err := pages.ReadNode(s.kernel, 0, zones[0])
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	loader(t, "-", "base", int(free().Free>>20)-spare, 100)
	l := s.loader("base", mib, 0)
	swapped, killed := counter(t, "pswpout "), counter(t, "oom_kill ")
	r := s.pass()
	after := locality.NodeMemory(free())
	if !errors.Is(r.Err, mover.ErrNoRoom) || r.Outcome != locality.Failed || r.Left[locality.LeftNoRoom] == 0 {
		t.Errorf("%+v", r)
	}
	if !after.Allows(0) || counter(t, "pswpout ") != swapped || counter(t, "oom_kill ") != killed {
		t.Errorf("%+v, swapped out %d, killed %d", after, counter(t, "pswpout ")-swapped, counter(t, "oom_kill ")-killed)
	}
	t.Logf("%v, room %d MiB: %+v", s.on(l), after.Room(0)>>20, r)
}

// swapOn enables swap on a RAM disk if the kernel has one.
func swapOn(t *testing.T) {
	t.Helper()
	const name, blocks = "/dev/ram0", 128 << 20 / pages.Size
	disk, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return // The distribution's kernel cannot swap out here.
	}
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	header := make([]byte, pages.Size) // union swap_header of include/linux/swap.h
	binary.NativeEndian.PutUint32(header[1024:], 1)
	binary.NativeEndian.PutUint32(header[1028:], blocks-1)
	copy(header[pages.Size-10:], "SWAPSPACE2")
	if _, err := disk.Write(header); err != nil {
		t.Fatal(err)
	}
	if err := disk.Sync(); err != nil {
		t.Fatal(err)
	}
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(path)), 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() {
		if _, _, errno := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(path)), 0, 0); errno != 0 {
			t.Error(errno)
		}
	})
}

// BenchmarkPass compares passes with bare loops that make the same calls on the same pages. It measures a pass without
// the search for pages, and the whole pass. Bare calls move the pages back, and the order alternates. It asks for the
// end of a pass as rarely as berth memory migrate does.
func BenchmarkPass(b *testing.B) {
	const mib, every = 256, 200 * time.Millisecond
	for _, percent := range []int{0, 43, 95} {
		b.Run(fmt.Sprintf("%d per cent local", percent), func(b *testing.B) {
			s := twoNodes(b)
			l := s.loader("base", mib, percent)
			var lists [][]uint64
			s.calling = func(list []uint64) { lists = append(lists, slices.Clone(list)) }
			s.pass()
			s.calling, s.every = nil, every
			s.bare(l, lists, 1)
			var whole, looked, bare time.Duration
			for round := 0; b.Loop(); round++ {
				for i := range 2 {
					if i == round%2 {
						r := s.pass()
						whole, looked = whole+r.Ended-r.Started, looked+r.Looked
						b.Logf("pass %v, looked %v, called %v", r.Ended-r.Started, r.Looked, r.Called)
					} else {
						took := s.bare(l, lists, 0)
						bare += took
						b.Logf("bare %v", took)
					}
					s.bare(l, lists, 1)
				}
			}
			b.ReportMetric(bare.Seconds()/(whole-looked).Seconds(), "pass-without-look-of-bare")
			b.ReportMetric(bare.Seconds()/whole.Seconds(), "pass-of-bare")
		})
	}
}

// bare makes calls for lists of pages and returns their duration.
func (s *stage) bare(l *loaded, lists [][]uint64, node int32) (took time.Duration) {
	s.Helper()
	const moveOwn = 2
	for _, list := range lists {
		nodes, status := slices.Repeat([]int32{node}, len(list)), make([]int32, len(list))
		began := time.Now()
		if _, err := s.kernel.MovePages(l.pid, list, nodes, status, moveOwn); err != nil {
			s.Fatal(err)
		}
		took += time.Since(began)
	}
	return took
}

// BenchmarkRate moves pages for ten seconds under a rate limit.
func BenchmarkRate(b *testing.B) {
	const mib, limit = 100, 10 << 20
	for b.Loop() {
		s := twoNodes(b)
		l := s.loader("base", mib, 0)
		s.order.Rate = limit
		r := s.pass()
		if r.Err != nil {
			b.Errorf("%+v", r)
		}
		b.Logf("%.3f of the limit: %+v", r.Rate/limit, r)
		_ = l.cmd.Process.Kill() // The end of the test kills it too.
	}
}

// BenchmarkWalk walks memory that is all local, or all remote without a local node. It measures this process's CPU time
// per GiB.
func BenchmarkWalk(b *testing.B) {
	const mib = 512
	for _, name := range []string{"local", "remote"} {
		b.Run(name, func(b *testing.B) {
			s := newStage(b)
			s.order.Local = cpuset.Set{}
			for id := range s.nodes {
				if name == "local" {
					s.order.Local = s.order.Local.Add(id)
				}
			}
			s.loader("base", mib, 100)
			before := used(b)
			for b.Loop() {
				if r := s.pass(); r.Err != nil {
					b.Fatalf("%+v", r)
				}
			}
			b.ReportMetric((used(b)-before).Seconds()*1e3/float64(b.N)/(mib/1024.0), "ms-CPU/GiB")
		})
	}
}

// twin is the running kernel. If on is set, it has a second node that looks like the first.
type twin struct {
	pages.Kernel
	on bool
}

func (k *twin) ReadFile(name string) ([]byte, error) {
	if !k.on {
		return k.Kernel.ReadFile(name)
	}
	if name == "proc/self/status" {
		return []byte("Mems_allowed_list:\t0-1\n"), nil
	}
	data, err := k.Kernel.ReadFile(strings.Replace(name, "/node1/", "/node0/", 1))
	return bytes.ReplaceAll(data, []byte("Node 0,"), []byte("Node 1,")), err
}

// BenchmarkDryRun walks and lists memory that is all remote. Like BenchmarkWalk, it measures the work of a pass without
// its calls.
func BenchmarkDryRun(b *testing.B) {
	const mib = 512
	s := newStage(b)
	s.twin.on = true
	s.order.Local, s.order.DryRun = cpuset.Set{}.Add(1), true
	s.order.Nodes = locality.Nodes{{ID: 0, Bytes: 1}, {ID: 1, Bytes: 1}}
	s.loader("base", mib, 100)
	before := used(b)
	for b.Loop() {
		if r := s.pass(); r.Err != nil || r.Bytes() < mib<<20 {
			b.Fatalf("%+v", r)
		}
	}
	b.ReportMetric((used(b)-before).Seconds()*1e3/float64(b.N)/(mib/1024.0), "ms-CPU/GiB")
}

// BenchmarkScan measures the search for all processes of the host that map the memory of one process.
func BenchmarkScan(b *testing.B) {
	s := newStage(b)
	pid := s.loader("memfd", 1, 100).pid
	before := used(b)
	for b.Loop() {
		sole, err := pages.Sole(s.kernel, func() ([]int, error) { return []int{pid}, nil })
		if err != nil || len(sole) == 0 {
			b.Fatal(sole, err)
		}
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric((used(b)-before).Seconds()*1e6/float64(b.N)/float64(len(all)), "us-CPU/process")
	b.ReportMetric(float64(len(all)), "processes")
}

// used returns the CPU time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Stime.Nano() + u.Utime.Nano())
}
