package mover_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/test/kernel/job"
)

const (
	// allRuns is the number of runs in each of the six machines of `make verify-kernels`, more than 1,000 together.
	// someRuns applies with a reduced number of repetitions.
	allRuns, someRuns = 170, 15
	// movedMiB is what the pass moves, hogMiB is the most that the hog uses, and cacheMiB is the reclaimable page
	// cache. Half of the cache is more than the minimum that stays unused.
	movedMiB, hogMiB, cacheMiB = 24, 16, 240
	// uncounted is the error of the kernel's counters, a part of which is per CPU.
	uncounted = 3 << 20
)

// pressure is a pass to a nearly full node, beside a hog that allocates and frees memory there.
type pressure struct {
	*stage
	zones     pages.Zones
	disks     []*os.File // whose pages are in the page cache
	moved     *loaded
	bystander *loaded
	untouched string // numa_maps of the bystander
	ballast   []byte // memory of this process on the node, of which weight bytes are used
	weight    int

	mu    sync.Mutex
	hog   []byte
	held  int
	took  int // how often the hog allocated
	calls int // of the pass
	// lowest and tightest are minima over the calls, as if the hog had no memory: free bytes above the middle of the
	// watermarks, and bytes of room.
	lowest, tightest int64
}

// TestLivePressure moves pages to a node where the hog leaves about the room that the law requires. The hog stays above
// the watermarks, so only the mover can go below them. The mover moves no page of another process, causes no swap-out
// or kill, and leaves as much free memory as its law says.
func TestLivePressure(t *testing.T) {
	p := newPressure(t)
	stride, err := job.Stride()
	if err != nil {
		t.Fatal(err)
	}
	runs, full := allRuns, 0
	if stride > 1 {
		runs = someRuns
	}
	for run := range runs {
		random := rand.New(rand.NewPCG(11, uint64(run)))
		if r := p.run(random); errors.Is(r.Err, mover.ErrNoRoom) {
			full++
		}
		if t.Failed() {
			t.Fatalf("run %d", run)
		}
	}
	if full == 0 || p.took == 0 {
		t.Errorf("%d runs without room, the hog took memory %d times", full, p.took)
	}
	t.Logf("%d runs, %d of them without room; the hog took memory %d times", runs, full, p.took)
}

func newPressure(t *testing.T) *pressure {
	t.Helper()
	p := &pressure{stage: smallNodes(t)}
	swapOn(t)
	// The watermarks are far apart, so that levels between them can be measured.
	setting(t, "/proc/sys/vm/min_free_kbytes", 32<<10)
	setting(t, "/proc/sys/vm/watermark_scale_factor", 200)
	// Short per-CPU lists: their pages do not count as free.
	setting(t, "/proc/sys/vm/percpu_pagelist_high_fraction", 1<<20)
	zones, err := pages.ReadZones(p.kernel)
	if err != nil {
		t.Fatal(err)
	}
	p.zones = zones[0]
	p.disks = disks(t)
	p.bystander = loader(t, "-", "mlocked", 16, 50) // The filling of the node may swap out its pages.
	p.untouched = p.bystander.line(t)
	p.moved = p.loader("base", movedMiB, 0)
	free := p.free()
	p.hog = mapped0(t, hogMiB<<20, unix.MADV_NOHUGEPAGE)
	p.ballast = mapped0(t, int(free.Free), unix.MADV_HUGEPAGE)
	p.calling = p.look
	return p
}

// run makes one pass, with random amounts of free memory and cache at its start.
func (p *pressure) run(random *rand.Rand) mover.Report {
	p.Helper()
	began := time.Now()
	p.bare(p.moved, [][]uint64{p.moved.addresses()}, 1)
	cached, free := p.draw(random)
	p.fill(cached, free)
	p.settle()
	at := p.free()
	p.calls, p.lowest, p.tightest = 0, 1<<40, 1<<40
	swapped, killed := counter(p, "pswpout "), counter(p, "oom_kill ")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); p.hogs(random, stop) }()
	r := p.pass()
	close(stop)
	<-done
	p.Logf("%d MiB free, %d MiB cache: moved %d MiB in %d calls, %v; least %d KiB above the watermarks, %d KiB of room; %v, of them %v in the pass",
		at.Free>>20, at.InactiveFile>>20, r.Bytes()>>20, r.Calls, r.Err, p.lowest>>10, p.tightest>>10, time.Since(began).Round(time.Millisecond), (r.Ended - r.Started).Round(time.Millisecond))
	if now := p.bystander.isAgain(p, p.untouched); now != p.untouched {
		p.Errorf("pages of another process: %s, then %s", p.untouched, now)
	}
	// While no page moves, a swap-out is caused by the filling of the node and the hog.
	if now := counter(p, "pswpout "); now != swapped && r.Calls > 0 {
		p.Errorf("%d pages were swapped out", now-swapped)
	}
	if now := counter(p, "oom_kill "); now != killed {
		p.Errorf("%d processes were killed", now-killed)
	}
	if p.lowest < -uncounted || p.tightest < -uncounted {
		p.Errorf("%d KiB above the middle of the watermarks, %d KiB of room", p.lowest>>10, p.tightest>>10)
	}
	if r.Err != nil && !errors.Is(r.Err, mover.ErrNoRoom) {
		p.Errorf("%+v", r)
	}
	return r
}

// draw chooses the amounts of cache and of free memory at the start of a run. In one of three cases there is room
// without any cache. In another there is enough room but almost no free memory, so the kernel must reclaim.
func (p *pressure) draw(random *rand.Rand) (cached, free int) {
	const most = (movedMiB + hogMiB) << 20
	low, spare := int(p.zones.Low), int(p.zones.High)+64<<20
	room := random.IntN(most)
	free = spare + room
	switch random.IntN(3) {
	case 0:
		free = low + random.IntN(spare-low)
	case 1:
		free, room = low+random.IntN(4<<20), most
	}
	if len(p.disks) == 0 {
		return 0, spare + room
	}
	return max(0, 2*(spare+room-free)), free
}

// fill sets the amounts of free memory and of cache on the node. The cache is new, because pages that the kernel
// reclaimed and reads again count as in use.
func (p *pressure) fill(cached, free int) {
	p.Helper()
	for _, d := range p.disks {
		if err := unix.Fadvise(int(d.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			p.Fatal(err)
		}
	}
	p.weigh(int(p.free().Free) - free - cached)
	p.cache(cached)
}

// settle waits until the kernel has finished the reclaim that the filling caused, so that later swap-outs belong to the
// pass.
func (p *pressure) settle() {
	p.Helper()
	const looks, apart = 200, 50 * time.Millisecond
	for range looks {
		scanned, swapped := counter(p, "pgscan_kswapd "), counter(p, "pswpout ")
		time.Sleep(apart)
		if counter(p, "pgscan_kswapd ") == scanned && counter(p, "pswpout ") == swapped {
			return
		}
	}
	p.Fatalf("the kernel reclaims for longer than %v", looks*apart)
}

// weigh allocates more bytes of the ballast, or frees them if more is negative.
func (p *pressure) weigh(more int) {
	p.Helper()
	const block = 2 << 20
	to := min(max(0, p.weight+more/block*block), len(p.ballast)/block*block)
	for i := p.weight; i < to; i += 4 << 10 {
		p.ballast[i] = 1
	}
	if to < p.weight {
		if err := unix.Madvise(p.ballast[to:p.weight], unix.MADV_DONTNEED); err != nil {
			p.Fatal(err)
		}
	}
	p.weight = to
}

// cache reads the given number of bytes of the disks into the cache of the node.
func (p *pressure) cache(bytes int) {
	p.Helper()
	runtime.LockOSThread() // A memory policy belongs to a thread.
	defer runtime.UnlockOSThread()
	var mask unix.CPUSet
	mask.Set(0)
	err := unix.SetMemPolicy(unix.MPOL_BIND, &mask)
	const ahead = 128 << 10 // what the kernel reads ahead at once
	left := int64(bytes)
	for _, d := range p.disks {
		fd, end := int(d.Fd()), min(left, cacheMiB<<20/2)
		for at := int64(0); at < end && err == nil; at += ahead {
			err = unix.Fadvise(fd, at, min(ahead, end-at), unix.FADV_WILLNEED)
		}
		left -= end
	}
	if err = errors.Join(err, unix.SetMemPolicy(unix.MPOL_DEFAULT, nil)); err != nil {
		p.Fatal(err)
	}
}

// hogs allocates and frees memory until stop is closed.
func (p *pressure) hogs(random *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			p.hogStep(-len(p.hog))
			return
		case <-time.After(time.Duration(random.IntN(20)) * time.Millisecond):
			p.hogStep((random.IntN(3<<20) - 1<<20) &^ (4<<10 - 1))
		}
	}
}

// hogStep allocates the given number of bytes if they are free above the watermarks, or frees them.
func (p *pressure) hogStep(more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := min(max(0, p.held+more), len(p.hog))
	if to < p.held {
		if err := unix.Madvise(p.hog[to:p.held], unix.MADV_DONTNEED); err != nil {
			p.Error(err)
		}
		p.held = to
		return
	}
	now := p.free()
	p.seen(now, 0)
	if now.Free-int64(to-p.held) < now.High {
		return
	}
	for ; p.held < to; p.held += 4 << 10 {
		p.hog[p.held] = 1
	}
	p.took++
}

// look records what a call for these pages will leave free.
func (p *pressure) look(list []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.seen(p.free(), int64(len(list))*pages.Size)
}

// seen records how much memory the calls of the pass leave free, and how much of that is room by the law. The hog's
// memory counts as free.
func (p *pressure) seen(now pages.NodeMemory, taken int64) {
	if p.calls > 0 {
		now.Free += int64(p.held) + p.listed() - taken
		p.lowest = min(p.lowest, now.Free-(now.Min+now.Low)/2)
		p.tightest = min(p.tightest, now.Free+now.InactiveFile/2-now.High-64<<20)
	}
}

// listed returns the bytes in the kernel's per-CPU lists, which do not count as free.
func (p *pressure) listed() (bytes int64) {
	data, err := p.kernel.ReadFile("proc/zoneinfo")
	if err != nil {
		p.Error(err)
	}
	node, _, _ := strings.Cut(string(data), "Node 1,")
	for line := range strings.Lines(node) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == "count" {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil {
				p.Error(err)
			}
			bytes += n * pages.Size
		}
	}
	return bytes
}

func (p *pressure) free() pages.NodeMemory {
	m, err := pages.ReadNode(p.kernel, 0, p.zones)
	if err != nil {
		p.Error(err)
	}
	return m
}

// smallNodes returns twoNodes if the nodes are small enough to be filled.
func smallNodes(t *testing.T) *stage {
	t.Helper()
	s := twoNodes(t)
	m, err := pages.ReadNode(s.kernel, 0, pages.Zones{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Total > 2<<30 {
		t.Skip("fills a NUMA node, which is too large; runs in the VM: make verify-kernels")
	}
	return s
}

// setting changes a kernel setting until the test ends.
func setting(t *testing.T, name string, value int) {
	t.Helper()
	before, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, []byte(strconv.Itoa(value)), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(name, before, 0); err != nil {
			t.Error(err)
		}
	})
}

// mapped0 maps memory that is allocated on the first node when it is touched.
func mapped0(t *testing.T, size, advice int) []byte {
	t.Helper()
	const block = 2 << 20
	whole, err := unix.Mmap(-1, 0, size+block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(whole); err != nil {
			t.Error(err)
		}
	})
	region := whole[-uintptr(unsafe.Pointer(unsafe.SliceData(whole)))%block:][:size]
	if err := errors.Join(bindTo(region, 0), unix.Madvise(region, advice)); err != nil {
		t.Fatal(err)
	}
	return region
}

// disks opens the RAM disk and a partition of all of it, each with its own cache. Sectors that were never written use
// no memory.
func disks(t *testing.T) []*os.File {
	t.Helper()
	const name, first = "/dev/ram0", 1 << 20
	disk, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // The distribution's kernel.
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = disk.Close() })
	size, err := unix.IoctlGetInt(int(disk.Fd()), unix.BLKGETSIZE64)
	if err != nil {
		t.Fatal(err)
	}
	part := partition{start: first, length: int64(size) - first, number: 1}
	if err := part.do(disk, unix.BLKPG_ADD_PARTITION); err != nil {
		t.Fatal(err)
	}
	second, err := os.Open(name + "p1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(second.Close(), part.do(disk, unix.BLKPG_DEL_PARTITION)); err != nil {
			t.Error(err)
		}
	})
	return []*os.File{disk, second}
}

// partition is struct blkpg_partition of include/uapi/linux/blkpg.h.
type partition struct {
	start, length int64
	number        int32
	_             [64 + 64]byte
}

// do creates or deletes the partition.
func (p *partition) do(disk *os.File, op int32) error {
	arg := struct { // struct blkpg_ioctl_arg
		op, flags, size int32
		data            *partition
	}{op: op, size: int32(unsafe.Sizeof(*p)), data: p}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, disk.Fd(), unix.BLKPG, uintptr(unsafe.Pointer(&arg)))
	runtime.KeepAlive(p)
	if errno != 0 {
		return fmt.Errorf("partition %d, operation %d: %w", p.number, op, errno)
	}
	return nil
}
