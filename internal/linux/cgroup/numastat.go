package cgroup

import (
	"bytes"

	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	// maxNode is above every id of a NUMA node: MAX_NUMNODES of Linux is 1,024.
	maxNode = 1024
	// maxBytes is above the memory of any machine; a larger number is malformed.
	maxBytes = 1 << 56
)

// MemoryByNode is the memory charged to a group and the groups below it, in bytes by NUMA node id. Trailing nodes
// without memory may be missing.
type MemoryByNode struct {
	// Movable counts anonymous and shared pages, and the huge pages of pools where the kernel counts them by group
	// (controller hugetlb).
	Movable []int64
	// File counts the other pages of the page cache.
	File []int64
}

// ParseMemoryByNode parses the text of memory.numa_stat of a v2 group. It leaves out the huge pages of pools. It
// returns false for malformed text.
func ParseMemoryByNode(text []byte) (MemoryByNode, bool) {
	var b MemoryByNode
	ok := b.addV2(text)
	return b, ok
}

// leastOutside is the least memory on other nodes that counts. Some pages always stay, such as those that the kernel
// holds for another purpose at that moment, and the kernel's counts are inexact.
const leastOutside = 1 << 20

// Outside returns how many movable bytes are on other nodes than these, 0 for less than 1 MiB.
func (b MemoryByNode) Outside(nodes cpuset.Set) int64 {
	var sum int64
	for node, bytes := range b.Movable {
		if !nodes.Contains(node) {
			sum += bytes
		}
	}
	if sum < leastOutside {
		return 0
	}
	return sum
}

// Outside is MemoryByNode.Outside for the memory of a group, 0 if the kernel does not count that memory.
func Outside(g *Group, nodes cpuset.Set) int64 {
	memory, err := g.Memory()
	if err != nil {
		return 0
	}
	defer memory.Close()
	by, err := memory.ByNode()
	if err != nil {
		return 0
	}
	return by.Outside(nodes)
}

// addV1 adds the lines "hierarchical_TYPE=PAGES N0=PAGES ..." of memory.numa_stat.
func (b *MemoryByNode) addV1(data []byte, pageSize int64) bool {
	return eachLine(data, func(name, fields []byte) bool {
		name, _, _ = bytes.Cut(name, []byte{'='})
		switch string(name) { // does not allocate
		case "hierarchical_anon", "hierarchical_unevictable":
			return addNodes(&b.Movable, fields, pageSize)
		case "hierarchical_file":
			return addNodes(&b.File, fields, pageSize)
		}
		return true
	})
}

// addV2 adds the lines "TYPE N0=BYTES N1=BYTES ..." of memory.numa_stat. The kernel counts shared pages (shmem) in file
// too, so addV2 subtracts them from File.
func (b *MemoryByNode) addV2(data []byte) bool {
	return eachLine(data, func(name, fields []byte) bool {
		switch string(name) {
		case "anon":
			return addNodes(&b.Movable, fields, 1)
		case "shmem":
			return addNodes(&b.Movable, fields, 1) && addNodes(&b.File, fields, -1)
		case "file":
			return addNodes(&b.File, fields, 1)
		}
		return true
	})
}

// addPool adds the last line of hugetlb.SIZE.numa_stat, "total=BYTES N0=BYTES ...". v1 has two lines; the last one,
// "hierarchical_total", includes the groups below.
func (b *MemoryByNode) addPool(data []byte) bool {
	if i := bytes.LastIndexByte(data, '\n'); i >= 0 {
		data = data[i+1:]
	}
	return eachLine(data, func(name, fields []byte) bool {
		return bytes.Contains(name, []byte("total=")) && addNodes(&b.Movable, fields, 1)
	})
}

// eachLine calls visit for every line with its first word and the remaining text, until visit returns false.
func eachLine(data []byte, visit func(name, fields []byte) bool) bool {
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte{'\n'})
		name, fields, _ := bytes.Cut(line, []byte{' '})
		if !visit(name, fields) {
			return false
		}
	}
	return true
}

// addNodes adds the fields "N0=NUMBER N1=NUMBER ...", times unit, to sums.
func addNodes(sums *[]int64, fields []byte, unit int64) bool {
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, []byte{' '})
		if len(field) == 0 { // some kernels end the line with a blank
			continue
		}
		id, text, found := bytes.Cut(field, []byte{'='})
		if !found || len(id) == 0 || id[0] != 'N' {
			return false
		}
		node, isNode := parseUint(id[1:])
		n, isNumber := parseUint(text)
		if !isNode || !isNumber || node >= maxNode || n > maxBytes/uint64(max(unit, -unit)) {
			return false
		}
		for uint64(len(*sums)) <= node {
			*sums = append(*sums, 0)
		}
		sum := (*sums)[node] + int64(n)*unit
		(*sums)[node] = max(min(sum, maxBytes), -maxBytes)
	}
	return true
}
