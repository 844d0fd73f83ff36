package pages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// LongestHeld is the size of the largest mapping whose policy is read, in bytes. For each line of numa_maps, the kernel
// counts the pages of the mapping one by one. The process can map nothing in the meantime.
const LongestHeld = 4 << 30

// Policy is the entry of a mapping in numa_maps.
type Policy struct {
	// Start is the first address of the mapping.
	Start uint64
	// Own is true if the process chose the nodes of its pages: the policy is neither default nor local.
	Own bool
	// Rebinds is true if the nodes of the policy change with cpuset.mems, and do not change back when cpuset.mems gets
	// its former value again (mm/mempolicy.c, mpol_rebind_policy).
	Rebinds bool
	// Relative is true if the nodes of the policy are relative to cpuset.mems (MPOL_F_RELATIVE_NODES). Linux 6.1 and
	// 6.18 divide by zero if cpuset.mems changes above a group without its own list. The divisor is the number of nodes
	// in that list: mpol_rebind_mm(mm, &cs->mems_allowed) in kernel/cgroup/cpuset.c, bitmap_fold in mm/mempolicy.c.
	Relative bool
	// Bytes is the size of the mapping's pages on each node, including page cache.
	Bytes []int64
	// PageSize is the size of the mapping's pages in bytes. Huge is true if the pages belong to a pool.
	PageSize int64
	Huge     bool
	// File is true if the mapping is of a file. Bytes may then include page cache.
	File bool
	// Anonymous is the size of the mapping's anonymous pages. Shared is true if several page tables have a page of the
	// mapping, or one page table has it several times. Neither counts pages in swap, or pages that are moving.
	Anonymous int64
	Shared    bool
	// Assumed is true if this mapping, or an earlier one, is too large to be read. The policy is then that of the
	// process.
	Assumed bool
}

// Fills reports whether, when the kernel counted, every page of the mapping was present and anonymous, and no other
// process had any of them mapped. This is the state for which pagemap has an entry with the bits present and exclusive
// at each address. Both count the same mappings of the same pages (fs/proc/task_mmu.c: gather_stats and
// pte_to_pagemap_entry). They differ for a huge page: numa_maps counts the mappings of its first page only, and other
// processes may have later pages mapped. The kernel refuses to move that huge page. m is the mapping as maps showed it.
func (p *Policy) Fills(m *Mapping) bool {
	if m.Kind != Private || p.Start != m.Start || p.Huge || p.File || p.Shared || p.PageSize != Size {
		return false
	}
	var all int64
	for _, bytes := range p.Bytes {
		all += bytes
	}
	return all == p.Anonymous && uint64(all) == m.End-m.Start
}

// Policies reads the policies of a process, in the order of addresses. It is for one walk.
type Policies struct {
	process *Process
	lines   *lines
	maps    []Mapping
	at      int // the mapping of the next line
	last    Policy
	first   Policy
	stopped bool
	ended   bool // all lines were read
}

// Policies opens the policies of the process, for its mappings. At reads them on demand, and Close releases the file.
func (p *Process) Policies(mappings []Mapping) (*Policies, error) {
	f, err := p.kernel.Open(p.file("numa_maps"))
	if err != nil {
		return nil, fmt.Errorf("policies of process %d: %w", p.PID, p.classified(err))
	}
	return &Policies{process: p, lines: &lines{from: f, size: policyRead}, maps: mappings}, nil
}

// Close releases the file.
func (q *Policies) Close() { _ = q.lines.from.Close() } // The file was only read.

// At returns the policy of the mapping that begins at or before an address. The caller must pass addresses in ascending
// order.
func (q *Policies) At(address uint64) (Policy, error) {
	for !q.stopped && q.before(address) {
		if err := q.advance(); err != nil {
			return Policy{}, err
		}
	}
	if q.before(address) {
		return Policy{Own: q.first.Own, Rebinds: q.first.Rebinds, Relative: q.first.Relative, Assumed: !q.ended}, nil
	}
	return q.last, nil
}

// before reports whether lines up to the line of an address are still unread.
func (q *Policies) before(address uint64) bool {
	return q.at < len(q.maps) && q.maps[q.at].Start <= address
}

// advance reads a line, or stops before a mapping that is too large.
func (q *Policies) advance() error {
	if tooLarge(q.maps, q.at) || tooLarge(q.maps, q.at+1) { // the kernel is one line ahead
		q.stopped = true
		return nil
	}
	line, err := q.lines.next()
	if errors.Is(err, io.EOF) { // The kernel has no line for the vsyscall page.
		q.stopped, q.ended = true, true
		return nil
	}
	if err != nil {
		return fmt.Errorf("policies: %w", q.process.classified(err))
	}
	start, policy, err := parsePolicy(line)
	if err != nil {
		return err
	}
	if q.last = policy; q.at == 0 {
		q.first = policy // The first mapping, of the program's file, has no policy of its own.
	}
	for q.before(start) {
		q.at++
	}
	return nil
}

// parsePolicy reads lines like "7f00 bind:0 anon=2 N0=1 N1=1 kernelpagesize_kB=4".
func parsePolicy(line string) (start uint64, p Policy, err error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return 0, Policy{}, fmt.Errorf("line %q of numa_maps: %w", line, ErrMalformed)
	}
	if start, err = strconv.ParseUint(fields[0], 16, 64); err != nil {
		return 0, Policy{}, fmt.Errorf("line %q of numa_maps: %w", line, ErrMalformed)
	}
	p.Start, p.Own = start, fields[1] != "default" && fields[1] != "local"
	p.Rebinds = p.Own && !strings.Contains(modeOf(fields), "=static")
	p.Relative = p.Own && strings.Contains(modeOf(fields), "=relative")
	numbers := map[string]int64{"kernelpagesize_kB": 0, "anon": 0, "mapmax": 0}
	for _, f := range fields[2:] {
		p.Huge = p.Huge || f == "huge"
		p.File = p.File || strings.HasPrefix(f, "file=")
		name, text, _ := strings.Cut(f, "=")
		if _, known := numbers[name]; known {
			if numbers[name], err = parseNumber(text); err != nil {
				return 0, Policy{}, err
			}
		}
	}
	p.PageSize = numbers["kernelpagesize_kB"] << 10
	p.Anonymous, p.Shared = numbers["anon"]*p.PageSize, numbers["mapmax"] > 1
	p.Bytes, err = parseOnNodes(fields[2:], p.PageSize)
	return start, p, err
}

// modeOf returns a policy with its flags, such as "bind=static:0". A mode of two words is "prefer (many):0-1" or
// "weighted interleave:0-1".
func modeOf(fields []string) string {
	if len(fields) > 2 && (fields[1] == "weighted" || strings.HasPrefix(fields[2], "(many)")) {
		return fields[1] + " " + fields[2]
	}
	return fields[1]
}

// mostNodes is the largest number of NUMA nodes that a kernel can be built for (CONFIG_NODES_SHIFT).
const mostNodes = 1 << 10

// parseOnNodes reads fields like "N0=12", the number of pages of the given size on a node. It returns bytes per node.
func parseOnNodes(fields []string, size int64) ([]int64, error) {
	var bytes []int64
	for _, f := range fields {
		name, count, _ := strings.Cut(f, "=")
		node, err := strconv.Atoi(strings.TrimPrefix(name, "N"))
		if err != nil || name[0] != 'N' {
			continue
		}
		n, err := parseNumber(count)
		if err != nil || node < 0 || node >= mostNodes {
			return nil, fmt.Errorf("field %q of numa_maps: %w", f, ErrMalformed)
		}
		for len(bytes) <= node {
			bytes = append(bytes, 0)
		}
		bytes[node] += n * size
	}
	return bytes, nil
}

// Threads describes the threads of a process and the policies of the threads. The first mapping of a program has no
// policy of its own, so its line in numa_maps shows the policy of the thread.
type Threads struct {
	Count             int
	Rebinds, Relative bool // see Policy
	// Assumed is true if the first mapping is too large to be read once for each thread. The threads are then assumed
	// to have no policy of their own.
	Assumed bool
}

// Threads returns the threads of the process, for its mappings. It calls rest after each thread whose policy it read,
// so that the caller can pause. For each thread the kernel counts the pages of the first mapping, such as the heap of a
// Java program, and the process can map nothing in the meantime. If rest returns an error, the result is valid for the
// threads read so far.
func (p *Process) Threads(mappings []Mapping, rest func() error) (all Threads, err error) {
	tids, err := numbers(p.kernel, fmt.Sprintf("proc/%d/task", p.PID))
	if err != nil {
		return all, fmt.Errorf("threads of process %d: %w", p.PID, p.classified(err))
	}
	if all.Count = len(tids); tooLarge(mappings, 0) || tooLarge(mappings, 1) { // the kernel is one line ahead
		all.Assumed = true
		return all, nil
	}
	for _, tid := range tids {
		policy, err := p.ofThread(tid)
		if err != nil {
			return all, err
		}
		all.Rebinds, all.Relative = all.Rebinds || policy.Rebinds, all.Relative || policy.Relative
		if err := rest(); err != nil {
			return all, err
		}
	}
	return all, nil
}

// ofThread returns the policy of a thread, or the zero Policy if the thread ended.
func (p *Process) ofThread(tid int) (policy Policy, err error) {
	f, err := p.kernel.Open(fmt.Sprintf("proc/%d/task/%d/numa_maps", p.PID, tid))
	if errors.Is(err, fs.ErrNotExist) {
		return policy, nil
	}
	if err != nil {
		return policy, fmt.Errorf("policy of thread %d: %w", tid, p.classified(err))
	}
	defer f.Close()
	line, err := (&lines{from: f, size: policyRead}).next()
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ESRCH) {
		return policy, nil // The thread ended, or has no memory.
	}
	if err != nil {
		return policy, fmt.Errorf("policy of thread %d: %w", tid, p.classified(err))
	}
	_, policy, err = parsePolicy(line)
	return policy, err
}

// Shifts reports whether a node of has would have another position in to, or none. The kernel rebinds memory policies
// by position (mpol_rebind_nodemask in mm/mempolicy.c). For example, a policy for node 1, the first node of a group,
// becomes a policy for node 0 once the group has both nodes.
func Shifts(has, to cpuset.Set) bool {
	for node := range to.All() {
		if has.IsEmpty() {
			return false
		}
		if !has.Contains(node) {
			return true
		}
		has = has.Remove(node)
	}
	return !has.IsEmpty()
}

// Blocks says which mappings have transparent huge pages.
type Blocks struct {
	huge  map[uint64]bool
	until uint64 // the mappings from here on were not read
}

// In reports whether the mapping that begins at an address may have transparent huge pages. It is true for a mapping
// that was not read.
func (b *Blocks) In(start uint64) bool { return start >= b.until || b.huge[start] }

// Blocks reads smaps one mapping at a time, up to the first mapping that is too large to be read. It is as slow as
// reading all policies.
func (p *Process) Blocks(mappings []Mapping) (*Blocks, error) {
	f, err := p.kernel.Open(p.file("smaps"))
	if err != nil {
		return nil, fmt.Errorf("huge pages of process %d: %w", p.PID, p.classified(err))
	}
	defer f.Close()
	b := &Blocks{huge: map[uint64]bool{}, until: math.MaxUint64}
	for i := range mappings {
		if tooLarge(mappings, i) {
			b.until = mappings[max(0, i-1)].Start // the kernel is one mapping ahead
			break
		}
	}
	in := &lines{from: f, size: smapsRead}
	for start := uint64(0); start < b.until; {
		line, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			start, err = b.read(line, start)
		}
		if err != nil {
			return nil, fmt.Errorf("huge pages of process %d: %w", p.PID, p.classified(err))
		}
	}
	return b, nil
}

// read parses a line of smaps: "7f00-7f08 rw-p ..." or "AnonHugePages:  2048 kB". It returns the start of the mapping.
func (b *Blocks) read(line string, start uint64) (uint64, error) {
	name, value, _ := strings.Cut(line, ":")
	if name == "AnonHugePages" || name == "ShmemPmdMapped" {
		kib, err := parseNumber(value)
		if kib > 0 {
			b.huge[start] = true
		}
		return start, err
	}
	if first, _, ok := strings.Cut(name, "-"); ok {
		if at, err := strconv.ParseUint(first, 16, 64); err == nil {
			return at, nil
		}
	}
	return start, nil
}

// tooLarge reports whether the kernel would need too long for a mapping.
func tooLarge(all []Mapping, i int) bool {
	return i < len(all) && all[i].Kind != Huge && all[i].Kind != Reserved && all[i].End-all[i].Start > LongestHeld
}

// One read must not make the kernel process more than one mapping. The kernel renders a whole mapping before it checks
// whether the reader asked for more (fs/seq_file.c:seq_read_iter). Each read therefore asks for less than the shortest
// mapping has: "00400000 default\n" in numa_maps, and in smaps the header and the sizes that are always there.
const (
	policyRead = 16
	smapsRead  = 512
)

// lines reads a file line by line. It never reads more than size bytes at once.
type lines struct {
	from    fs.File
	size    int
	pending []byte
	ended   bool
}

// next returns the next line without its newline. After the last line the error is io.EOF.
func (l *lines) next() (string, error) {
	for {
		if line, rest, ok := bytes.Cut(l.pending, []byte("\n")); ok {
			l.pending = rest
			return string(line), nil
		}
		if l.ended {
			return "", io.EOF
		}
		have := len(l.pending)
		l.pending = append(l.pending, make([]byte, l.size)...)
		n, err := l.from.Read(l.pending[have:])
		l.pending = l.pending[:have+n]
		switch {
		case errors.Is(err, io.EOF):
			l.ended = true
		case err != nil:
			return "", fmt.Errorf("read: %w", err)
		}
	}
}
