package pages

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// NodeMemory is the memory of one node in bytes. Its fields are those of locality.NodeMemory.
type NodeMemory struct {
	Total, Free         int64
	InactiveFile, Dirty int64
	Min, Low, High      int64
	Swap                int64
}

// Zones is the sum over all zones of a node, in bytes.
type Zones struct {
	// Min, Low and High are watermarks. Kept is free memory that processes cannot use: zones below the highest zone
	// reserve it for requests that can use no other zone.
	Min, Low, High, Kept int64
}

// ReadZones returns the zones of all nodes from proc/zoneinfo. The file is long on machines with many CPUs.
func ReadZones(k Files) (map[int]Zones, error) {
	data, err := k.ReadFile("proc/zoneinfo")
	if err != nil {
		return nil, fmt.Errorf("watermarks: %w", err)
	}
	zones, err := parseZones(string(data))
	if err != nil {
		return nil, fmt.Errorf("watermarks: %w", err)
	}
	return zones, nil
}

// parseZones reads blocks that begin like "Node 0, zone   Normal". All values are in pages.
func parseZones(text string) (map[int]Zones, error) {
	zones := map[int]Zones{}
	node, free := -1, int64(0)
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		digits := strings.TrimSuffix(rest, ")")
		digits = digits[strings.LastIndexAny(digits, " (")+1:]
		switch {
		case name == "Node":
			digits, _, _ = strings.Cut(rest, ",")
		case node < 0 || !slices.Contains([]string{"pages", "min", "low", "high", "protection:"}, name):
			continue
		}
		n, err := parseNumber(digits)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		if name == "Node" {
			node, free = int(n), 0
		}
		z := zones[node]
		switch name {
		case "pages": // "pages free 42"
			free = n * Size
		case "min":
			z.Min += n * Size
		case "low":
			z.Low += n * Size
		case "high":
			z.High += n * Size
		case "protection:": // the last number is for requests that can use the highest zone
			z.Kept += min(free, n*Size)
		}
		zones[node] = z
	}
	return zones, nil
}

// ReadNodes returns the current memory of all nodes that have memory, by node.
func ReadNodes(k Files) (map[int]NodeMemory, error) {
	zones, err := ReadZones(k)
	if err != nil {
		return nil, err
	}
	swap, err := freeSwap(k)
	if err != nil {
		return nil, err
	}
	all := make(map[int]NodeMemory, len(zones))
	for node, z := range zones {
		m, err := readNode(k, node, z)
		if errors.Is(err, ErrNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.Swap = swap
		all[node] = m
	}
	return all, nil
}

// ReadNode returns the current memory of a node, with the watermarks of z. The error is ErrNode if the node does not
// exist or has no memory. A caller that asks often passes zones that it read before.
func ReadNode(k Files, node int, z Zones) (NodeMemory, error) {
	m, err := readNode(k, node, z)
	if err != nil {
		return m, err
	}
	m.Swap, err = freeSwap(k)
	return m, err
}

// readNode is ReadNode without the swap space, which belongs to the host.
func readNode(k Files, node int, z Zones) (NodeMemory, error) {
	data, err := k.ReadFile(fmt.Sprintf("sys/devices/system/node/node%d/meminfo", node))
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(ErrNode, err)
	}
	if err != nil {
		return NodeMemory{}, fmt.Errorf("memory of node %d: %w", node, err)
	}
	m, err := parseNode(string(data))
	if err != nil {
		return NodeMemory{}, fmt.Errorf("memory of node %d: %w", node, err)
	}
	m.Min, m.Low, m.High = z.Min, z.Low, z.High
	m.Free = max(0, m.Free-z.Kept)
	return m, nil
}

// freeSwap returns the free swap space of the host in bytes, from proc/meminfo.
func freeSwap(k Files) (int64, error) {
	kib, err := number(k, "proc/meminfo", "SwapFree:")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // a recorded machine
	}
	return kib << 10, err
}

// parseNode reads lines like "Node 0 MemFree:   42 kB". It skips unknown lines, because kernels add new ones.
func parseNode(text string) (NodeMemory, error) {
	var m NodeMemory
	into := map[string]*int64{"MemTotal": &m.Total, "MemFree": &m.Free, "Inactive(file)": &m.InactiveFile, "Dirty": &m.Dirty}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(name)
		if len(fields) != 3 || into[fields[2]] == nil {
			continue
		}
		kib, err := parseNumber(value)
		if err != nil {
			return NodeMemory{}, err
		}
		*into[fields[2]] = kib << 10
	}
	switch {
	case m.Total > 0:
		return m, nil
	case strings.Contains(text, " MemTotal:"): // All memory of the node is offline.
		return NodeMemory{}, ErrNode
	}
	return NodeMemory{}, fmt.Errorf("no MemTotal: %w", ErrMalformed)
}

// FreeBlocks returns how many huge pages a node can provide at once: its free blocks of that size, from proc/buddyinfo.
func FreeBlocks(k Kernel, node int) (int64, error) {
	data, err := k.ReadFile("proc/buddyinfo")
	if err != nil {
		return 0, fmt.Errorf("free blocks of node %d: %w", node, err)
	}
	blocks, err := parseBlocks(string(data))
	if err != nil {
		return 0, fmt.Errorf("free blocks of node %d: %w", node, err)
	}
	return blocks[node], nil
}

// parseBlocks reads lines like "Node 0, zone   Normal  10 5 1 ...": the numbers of free blocks of 1, 2, 4 and so on
// pages.
func parseBlocks(text string) (map[int]int64, error) {
	const first, order = 4, 9 // index of order 0; order of a huge page
	blocks := map[int]int64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(strings.ReplaceAll(line, ",", " "))
		if len(fields) <= first || fields[0] != "Node" {
			return nil, fmt.Errorf("line %q of buddyinfo: %w", line, ErrMalformed)
		}
		node, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, fmt.Errorf("line %q of buddyinfo: %w", line, ErrMalformed)
		}
		if fields[3] == "DMA" {
			continue // reserved for old devices
		}
		for i := first + order; i < len(fields); i++ {
			n, err := parseNumber(fields[i])
			if err != nil {
				return nil, fmt.Errorf("line %q of buddyinfo: %w", line, err)
			}
			blocks[node] += n << min(i-first-order, 10)
		}
	}
	return blocks, nil
}

// FreePool returns how many pages of a size the pool of a node can provide. This is the smaller of two numbers: the
// free pages of the node, and the free pages of the host that are not reserved.
func FreePool(k Kernel, node int, size int64) (int64, error) {
	name := fmt.Sprintf("hugepages/hugepages-%dkB/", size>>10)
	read := func(file string) (int64, error) {
		data, err := k.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("pool of node %d: %w", node, err)
		}
		n, err := parseNumber(string(data))
		if err != nil {
			return 0, fmt.Errorf("pool of node %d, %s: %w", node, file, err)
		}
		return n, nil
	}
	here, err := read(fmt.Sprintf("sys/devices/system/node/node%d/%sfree_hugepages", node, name))
	if err != nil {
		return 0, err
	}
	free, err := read("sys/kernel/mm/" + name + "free_hugepages")
	if err != nil {
		return 0, err
	}
	promised, err := read("sys/kernel/mm/" + name + "resv_hugepages")
	return max(0, min(here, free-promised)), err
}

// SwappedOut returns how many pages the host has written to swap since boot, from proc/vmstat.
func SwappedOut(k Kernel) (int64, error) { return number(k, "proc/vmstat", "pswpout ") }

// number returns the number after a name in a file, with the rules of numberOf.
func number(k Files, file, name string) (int64, error) {
	data, err := k.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", strings.TrimRight(name, ": "), file, err)
	}
	n, err := numberOf(string(data), name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}

// numberOf reads lines like "Name:  42 kB" or "name 42". It returns 0 if no line has the name, as on a kernel without
// the counter.
func numberOf(text, name string) (int64, error) {
	value, found := lineOf(text, name)
	if !found {
		return 0, nil
	}
	n, err := parseNumber(value)
	if err != nil {
		return 0, fmt.Errorf("%s%s: %w", name, value, err)
	}
	return n, nil
}

// lineOf returns the text after a name at the beginning of a line.
func lineOf(text, name string) (value string, found bool) {
	for line := range strings.Lines(text) {
		if value, found = strings.CutPrefix(line, name); found {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// maxNumber is more than any machine has of pages, KiB or huge pages. Sums of such numbers in bytes do not overflow.
const maxNumber = 1 << 44

// parseNumber reads a number like "  42" or "  12 kB". The result has the unit of the text.
func parseNumber(text string) (int64, error) {
	digits, _ := strings.CutSuffix(strings.TrimSpace(text), "kB")
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n < 0 || n > maxNumber {
		return 0, fmt.Errorf("number %q: %w", text, ErrMalformed)
	}
	return n, nil
}
