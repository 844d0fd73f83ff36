package mover_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/linux/pages"
)

// fake is an in-memory kernel with nodes and processes. It renders the files that the mover reads, and moves pages by
// the rules of mm/migrate.c.
type fake struct {
	mu        sync.Mutex
	nodes     []*node
	processes map[int]*process
	swapOut   int64
	swapFree  int64 // KiB
	stalled   time.Duration
	cost      time.Duration // of one page, on the test's clock
	look      time.Duration // of one page whose node is only read
	moves     []move
	calls     []call
	splits    int // huge pages that the kernel would have split for lack of a free block
	opened    int // files
	hung      int // calls for a process whose memory map is locked
	// opening is called before each file is opened, without the lock.
	opening func(name string)
	ownMems string            // nodes that the program itself may use; empty for all
	starved bool              // no call finds memory
	files   map[string]string // other files of the kernel
	noNice  bool              // the program lacks CAP_SYS_NICE
	blind   bool              // the program does not see all processes
	// before is called before each call that moves pages, without the lock.
	before func(n int)
	// refuse, if set, is the error of each call and each file that concerns a process.
	refuse error
	// uncounted hides the number of pages by node in numa_maps. asked counts the pages whose node was only read.
	// entries counts the entries of pagemap that were read.
	uncounted bool
	asked     int
	entries   int
}

// move is the number of base pages that a call moved, and the time at which the call began.
type move struct {
	at    time.Time
	pages int64
}

// call is the arguments of one call.
type call struct {
	pid, node, n int
	stray        int // pages that do not belong in the list: absent, or already there
	shared       int // pages that the call leaves because others have them mapped
}

type node struct {
	total, free, inactive, minimum, low, high int64 // pages
	blocks                                    int64
	pool                                      int64
	lowest                                    int64 // free pages after a call, at the lowest; 0 for none
}

type process struct {
	start    uint64
	zombie   bool // the leader is a zombie
	ended    bool // ended while its files were open
	ending   bool // is ending and has no mounts any more
	threads  []int
	vmPin    int
	mappings []*mapping
	mems     func(node int) bool
	outside  bool // outside of the group
	// locked, if set, is closed when the lock of the process's memory map is free.
	locked chan struct{}
}

type mapping struct {
	start, end   uint64
	rights, path string
	inode        int
	policy       string
	folios       map[uint64]*folio // by the address of each base page
	swapped      map[uint64]bool
}

// folio is a base page or a huge page.
type folio struct {
	node   int
	pages  int64
	pool   bool
	file   bool // page cache or shared memory
	shared bool
	held   bool // can be isolated but not moved
	stuck  bool // cannot be isolated
	zero   bool // the zero page
}

func newFake(nodes int) *fake {
	f := &fake{processes: map[int]*process{}, files: map[string]string{
		"sys/devices/system/cpu/online": "0-1\n", "proc/sys/kernel/sched_rt_runtime_us": "950000\n", "proc/sys/kernel/sched_rt_period_us": "1000000\n",
	}}
	for range nodes {
		f.nodes = append(f.nodes, &node{total: 4 << 20, free: 2 << 20, minimum: 1000, low: 1250, high: 1500, blocks: 2048})
	}
	return f
}

// add adds a process with one anonymous mapping of the given number of base pages on a node.
func (f *fake) add(pid, pagesOf, on int) *process {
	p := &process{start: uint64(pid) * 7, threads: []int{pid}}
	p.mappings = append(p.mappings, anonymous(0x7f0000000000, pagesOf, on))
	f.processes[pid] = p
	return p
}

func anonymous(start uint64, n, on int) *mapping {
	m := &mapping{start: start, end: start + uint64(n)*pages.Size, rights: "rw-p", policy: "default", folios: map[uint64]*folio{}, swapped: map[uint64]bool{}}
	for i := range n {
		m.folios[start+uint64(i)*pages.Size] = &folio{node: on, pages: 1}
	}
	return m
}

// poolInode is the inode of mappings of a huge page pool.
const poolInode = 9

// huge returns a mapping of huge pages.
func huge(start uint64, n, on int, pool bool) *mapping {
	m := anonymous(start, 0, on)
	m.end = start + uint64(n)*pages.HugeSize
	if pool {
		m.path, m.inode = "/anon_hugepage (deleted)", poolInode
	}
	for i := range n {
		big := &folio{node: on, pages: 512, pool: pool}
		for j := range 512 {
			m.folios[start+uint64(i)*pages.HugeSize+uint64(j)*pages.Size] = big
		}
	}
	return m
}

// on counts the base pages of a process by node.
func (f *fake) on(pid int) map[int]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := map[int]int64{}
	for _, m := range f.processes[pid].mappings {
		for _, g := range m.folios {
			count[g.node]++
		}
	}
	return count
}

func (f *fake) Processes(group string) ([]int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []int
	for pid, p := range f.processes {
		if !p.outside {
			all = append(all, pid)
		}
	}
	return slices.Sorted(slices.Values(all)), nil
}

func (f *fake) SeesAll() bool { return !f.blind }

func (f *fake) Stalled(group string) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if group != "g" {
		return 0, nil
	}
	return f.stalled, nil
}

func (f *fake) ReadFile(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pid, tid, id int
	switch {
	case match(name, "proc/%d/task/%d/stat", &pid, &tid):
		return f.stat(pid, tid)
	case match(name, "proc/%d/stat", &pid):
		return f.stat(pid, pid)
	case match(name, "proc/%d/status", &pid), match(name, "proc/%d/maps", &pid), match(name, "proc/%d/mountinfo", &pid):
		return f.about(pid, name[strings.LastIndex(name, "/")+1:])
	case name == "proc/self/status":
		return fmt.Appendf(nil, "Name:\ta\nMems_allowed_list:\t%s\n", cmp.Or(f.ownMems, "0-1023")), nil
	case name == "proc/zoneinfo":
		var text strings.Builder
		for i, n := range f.nodes {
			fmt.Fprintf(&text, "Node %d, zone   Normal\n  pages free     %d\n        boost    0\n        min      %d\n        low      %d\n        high     %d\n        protection: (0, 0, 0)\n", i, n.free, n.minimum, n.low, n.high)
		}
		return []byte(text.String()), nil
	case name == "proc/buddyinfo":
		var text strings.Builder
		for i, n := range f.nodes {
			fmt.Fprintf(&text, "Node %d, zone   Normal 1 1 1 1 1 1 1 1 1 %d 0\n", i, n.blocks)
		}
		return []byte(text.String()), nil
	case name == "proc/meminfo":
		return fmt.Appendf(nil, "MemTotal: 1 kB\nSwapFree: %d kB\n", f.swapFree), nil
	case name == "proc/vmstat":
		return fmt.Appendf(nil, "pswpin 0\npswpout %d\n", f.swapOut), nil
	case match(name, "sys/devices/system/node/node%d/meminfo", &id) && id < len(f.nodes):
		n := f.nodes[id]
		return fmt.Appendf(nil, "Node %d MemTotal: %d kB\nNode %d MemFree: %d kB\nNode %d Inactive(file): %d kB\nNode %d Dirty: 0 kB\n",
			id, n.total*4, id, n.free*4, id, n.inactive*4, id), nil
	case match(name, "sys/devices/system/node/node%d/hugepages/hugepages-2048kB/free_hugepages", &id):
		return fmt.Appendln(nil, f.nodes[id].pool), nil
	case name == "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages":
		return []byte("1000\n"), nil
	}
	if text, has := f.files[name]; has {
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
}

func match(name, format string, args ...any) bool {
	n, err := fmt.Sscanf(name, format, args...)
	return err == nil && n == len(args) && strings.HasSuffix(name, format[strings.LastIndex(format, "/"):])
}

// find returns the process of a thread.
func (f *fake) find(tid int) (*process, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	if p := f.processes[tid]; p != nil && slices.Contains(p.threads, tid) {
		return p, nil
	}
	for _, p := range f.processes {
		if slices.Contains(p.threads, tid) {
			return p, nil
		}
	}
	return nil, syscall.ESRCH
}

func (f *fake) stat(pid, tid int) ([]byte, error) {
	p := f.processes[pid]
	if p == nil || tid != pid && !slices.Contains(p.threads, tid) {
		return nil, syscall.ENOENT
	}
	state, start := "S", p.start+uint64(tid-pid)
	if p.ended || p.zombie && tid == pid {
		state = "Z"
	}
	return fmt.Appendf(nil, "%d (a) b) %s 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 %d 1 1\n", tid, state, start), nil
}

func (f *fake) about(tid int, file string) ([]byte, error) {
	p, err := f.find(tid)
	if err != nil {
		return nil, err
	}
	switch file {
	case "mountinfo":
		if p.ending {
			return nil, &fs.PathError{Op: "open", Path: file, Err: syscall.EINVAL}
		}
		return []byte("22 1 0:20 / /dev/shm rw - tmpfs tmpfs rw\n"), nil
	case "status":
		text := fmt.Sprintf("Name:\ta\nVmPin:\t%d kB\nMems_allowed_list:\t", p.vmPin)
		for i := range f.nodes {
			if p.mems == nil || p.mems(i) {
				text += fmt.Sprintf("%d,", i)
			}
		}
		return []byte(strings.TrimSuffix(text, ",") + "\n"), nil
	}
	if p.ended || p.zombie && tid == p.threads[0] {
		return nil, nil
	}
	var text strings.Builder
	for _, m := range p.mappings {
		fmt.Fprintf(&text, "%08x-%08x %s 00000000 00:14 %d %s\n", m.start, m.end, m.rights, m.inode, m.path)
	}
	return []byte(text.String()), nil
}

// Open opens the files that the mover reads in part.
func (f *fake) Open(name string) (fs.File, error) {
	if f.opened++; f.opening != nil {
		f.opening(name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var tid int
	if match(name, "proc/%d/task", &tid) {
		if p := f.processes[tid]; p != nil {
			return &file{tids: p.threads}, nil
		}
		return nil, syscall.ENOENT
	}
	if name == "proc" {
		return &file{tids: slices.Sorted(maps.Keys(f.processes))}, nil
	}
	kind := name[strings.LastIndex(name, "/")+1:]
	match(name, "proc/%d/"+kind, &tid)
	p, err := f.find(tid)
	if err != nil {
		return nil, err
	}
	if kind == "maps" || kind == "mountinfo" {
		data, err := f.about(tid, kind)
		return &file{Reader: strings.NewReader(string(data)), p: p, f: f, locks: kind == "maps"}, err
	}
	var text strings.Builder
	for _, m := range p.mappings {
		switch kind {
		case "numa_maps":
			size, pool := 4, ""
			if m.inode == poolInode {
				size, pool = 2048, " huge"
			}
			fmt.Fprintf(&text, "%08x %s%s%s kernelpagesize_kB=%d\n", m.start, m.policy, pool, f.count(m, int64(size/4)), size)
		case "smaps":
			kib := 0
			for _, g := range m.folios {
				if g.pages > 1 && !g.pool {
					kib = 2048
				}
			}
			fmt.Fprintf(&text, "%08x-%08x %s 00000000 00:14 %d %s\nRss: 4 kB\nAnonHugePages: %d kB\n", m.start, m.end, m.rights, m.inode, m.path, kib)
		}
	}
	return &file{Reader: strings.NewReader(text.String()), p: p, f: f, locks: true}, nil
}

// count returns the pages of a mapping by node, how many of them are anonymous, whether any is shared, and the file of
// the mapping, as numa_maps does.
func (f *fake) count(m *mapping, each int64) string {
	if f.uncounted {
		return ""
	}
	file, shared, anonymous, on := "", "", int64(0), map[int]int64{}
	for at, g := range m.folios {
		if g.zero || m.swapped[at] {
			continue
		}
		on[g.node]++
		if g.file {
			file = " file=/f"
		} else {
			anonymous++
		}
		if g.shared {
			shared = " mapmax=2"
		}
	}
	text := fmt.Sprintf("%s anon=%d%s", file, anonymous/each, shared)
	for _, node := range slices.Sorted(maps.Keys(on)) {
		text += fmt.Sprintf(" N%d=%d", node, on[node]/each)
	}
	return text
}

// file is an open file: text, the pages of a process, or its threads.
type file struct {
	*strings.Reader
	p    *process
	f    *fake
	tids []int
	// locks is true if a read of the file takes the lock of the memory map.
	locks bool
}

// wait waits for the lock of the memory map.
func (o *file) wait() {
	o.f.mu.Lock()
	free := o.p.locked
	o.f.mu.Unlock()
	if free != nil {
		<-free
	}
}

func (o *file) Read(buf []byte) (int, error) {
	if o.locks {
		o.wait()
	}
	return o.Reader.Read(buf)
}

func (*file) Close() error               { return nil }
func (*file) Stat() (fs.FileInfo, error) { return nil, fs.ErrInvalid }

func (o *file) ReadDir(int) ([]fs.DirEntry, error) {
	var all []fs.DirEntry
	for _, t := range o.tids {
		all = append(all, entry{name: fmt.Sprint(t)})
	}
	return all, nil
}

type entry struct {
	fs.DirEntry
	name string
}

func (e entry) Name() string { return e.name }

// ReadAt reads pagemap.
func (o *file) ReadAt(buf []byte, off int64) (int, error) {
	o.wait()
	o.f.mu.Lock()
	defer o.f.mu.Unlock()
	if o.p.ended {
		return 0, io.EOF
	}
	defer o.f.pass(time.Duration(len(buf)/8) * o.f.look)
	o.f.entries += len(buf) / 8
	clear(buf)
	first := uint64(off) / 8 * pages.Size
	for _, m := range o.p.mappings {
		for a := max(m.start, first); a < m.end && (a-first)/pages.Size*8 < uint64(len(buf)); a += pages.Size {
			binary.NativeEndian.PutUint64(buf[(a-first)/pages.Size*8:], m.entry(a))
		}
	}
	return len(buf), nil
}

func (m *mapping) entry(address uint64) uint64 {
	g := m.folios[address]
	switch {
	case m.swapped[address]:
		return 1 << 62
	case g == nil:
		return 0
	case g.zero:
		return 1 << 63
	}
	e := uint64(1 << 63)
	if g.file {
		e |= 1 << 61
	}
	if !g.shared {
		e |= 1 << 56
	}
	return e
}

// MovePages acts as the system call does.
func (f *fake) MovePages(tid int, addresses []uint64, nodes, status []int32, flags int) (int, error) {
	if nodes != nil && f.before != nil {
		f.before(len(f.calls))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if flags&4 != 0 && f.noNice {
		return 0, syscall.EPERM
	}
	if tid == 0 {
		return 0, nil
	}
	p, err := f.find(tid)
	if err != nil {
		return 0, err
	}
	if p.zombie && tid == p.threads[0] {
		return 0, syscall.EINVAL
	}
	if p.locked != nil {
		f.hung++
		return 0, syscall.EINTR // the real call would not return
	}
	if nodes == nil {
		defer f.pass(time.Duration(len(addresses)) * f.look)
		f.asked += len(addresses)
		for i, a := range addresses {
			status[i] = -int32(syscall.ENOENT)
			if g := p.at(a); g != nil && !g.zero {
				status[i] = int32(g.node)
			}
		}
		return 0, nil
	}
	to := int(nodes[0])
	if f.nodes[to].total == 0 {
		return 0, syscall.ENODEV
	}
	if p.mems != nil && !p.mems(to) {
		return 0, syscall.EACCES
	}
	m := &migration{f: f, p: p, to: to, status: status, isolated: map[*folio]bool{}}
	began, had := time.Now(), f.nodes[to].free
	n, err := m.run(addresses, flags)
	f.moves = append(f.moves, move{began, had - f.nodes[to].free})
	f.calls = append(f.calls, call{pid: tid, node: to, n: len(addresses), stray: m.stray, shared: m.shared})
	f.pass(f.cost * time.Duration(len(addresses)))
	return n, err
}

// pass advances the time without the lock.
func (f *fake) pass(d time.Duration) {
	if d > 0 {
		f.mu.Unlock()
		time.Sleep(d)
		f.mu.Lock()
	}
}

func (p *process) at(address uint64) *folio {
	for _, m := range p.mappings {
		if g := m.folios[address]; g != nil {
			return g
		}
	}
	return nil
}

// migration is one call, carried out as in do_pages_move.
type migration struct {
	f        *fake
	p        *process
	to       int
	status   []int32
	queue    []*folio
	start    int
	isolated map[*folio]bool
	stray    int
	shared   int
}

func (m *migration) run(addresses []uint64, flags int) (int, error) {
	for i, a := range addresses {
		g := m.p.at(a)
		var s int32
		switch {
		case g == nil || g.zero:
			s = -int32(syscall.ENOENT)
			m.stray++
		case g.node == m.to:
			s = int32(m.to)
			m.stray++
		case g.shared && flags&4 == 0:
			s = -int32(syscall.EACCES)
			m.shared++
		case g.stuck || m.isolated[g]:
			s = -int32(syscall.EBUSY)
		default:
			m.isolated[g] = true
			m.queue = append(m.queue, g)
			continue
		}
		m.status[i] = s
		if n, err := m.flush(i); n > 0 || err != nil {
			return n + len(addresses) - i - 1, err
		}
		m.start = i + 1
	}
	return m.flush(len(addresses))
}

// flush migrates the queued pages up to an index. A failure does not write the statuses.
func (m *migration) flush(end int) (int, error) {
	if len(m.queue) == 0 {
		return 0, nil
	}
	failed, full := 0, false
	for _, g := range m.queue {
		target, source := m.f.nodes[m.to], m.f.nodes[g.node]
		switch {
		case g.held:
			failed++
		case m.f.starved, g.pool && target.pool == 0, !g.pool && target.free < g.pages:
			full = true
		default:
			if g.pages > 1 && !g.pool {
				if target.blocks == 0 {
					m.f.splits++
				} else {
					target.blocks--
				}
			}
			if g.pool {
				target.pool--
				source.pool++
			} else {
				target.free -= g.pages
				source.free += g.pages
				if target.lowest == 0 || target.free < target.lowest {
					target.lowest = target.free
				}
			}
			g.node = m.to
		}
		delete(m.isolated, g)
	}
	m.queue = nil
	if full {
		return 0, syscall.ENOMEM
	}
	if failed > 0 {
		return failed, nil
	}
	for i := m.start; i < end; i++ {
		m.status[i] = int32(m.to)
	}
	return 0, nil
}

var (
	_ pages.Kernel   = (*fake)(nil)
	_ fs.ReadDirFile = (*file)(nil)
	_ io.ReaderAt    = (*file)(nil)
)
