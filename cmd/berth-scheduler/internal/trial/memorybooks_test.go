package trial

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// memoryBooks are the auditor's books of one node's memory. A page size of 0 stands for memory outside huge pages.
type memoryBooks struct {
	// has is what each NUMA node may promise, by page size; ids are the numbers of these NUMA nodes.
	has []map[int64]int64
	ids []int
	// promises are what the containers of the pods are bound to.
	promises []promise
	// exempt are the pods that were bound when the node published other memory, or when a limit of memory rose there.
	exempt map[string]bool
}

// promise is memory that must come from the NUMA nodes of a set, whose bits are indexes of memoryBooks.ids.
type promise struct {
	pod         string
	set         uint
	page, bytes int64
}

// measure notes what the NUMA nodes may promise: all huge pages, and nine tenths of the rest.
func (b *memoryBooks) measure(nodes []v1alpha1.NUMANode) {
	b.has, b.ids = nil, nil
	for _, n := range nodes {
		has := map[int64]int64{0: (n.MemoryBytes - n.HugePageBytes) / 10 * 9}
		for _, p := range n.HugePages {
			has[p.PageKiB<<10] = p.PageKiB << 10 * p.Pages
		}
		b.has, b.ids = append(b.has, has), append(b.ids, int(n.ID))
	}
}

// bytesOf returns how many bytes of each page size a container may use: its limit, or the request of one without.
func bytesOf(r *v1.ResourceRequirements) map[int64]int64 {
	bytes := map[int64]int64{}
	for _, list := range []v1.ResourceList{r.Requests, r.Limits} {
		for name, amount := range list {
			if name == v1.ResourceMemory {
				bytes[0] = amount.Value()
			}
			if size, huge := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); huge {
				page := resource.MustParse(size)
				bytes[page.Value()] = amount.Value()
			}
		}
	}
	return bytes
}

// promise notes the memory of one container. Nothing is promised to a container that may use all NUMA nodes.
func (b *memoryBooks) promise(pod string, mems cpuset.Set, bytes map[int64]int64) {
	if mems.Size() == len(b.ids) {
		return
	}
	set := uint(0)
	for i, id := range b.ids {
		if mems.Contains(id) {
			set |= 1 << i
		}
	}
	for page, n := range bytes {
		b.promises = append(b.promises, promise{pod, set, page, n})
	}
}

// check adds up, for every set of NUMA nodes and every page size, what is promised within the set. If there are exempt
// pods, only sets count that promises to other pods cover: each of these had to leave room for the exempt pods of its
// NUMA nodes, but nobody had to for an exempt pod elsewhere.
func (b *memoryBooks) check() error {
	var errs []error
	for set := uint(1); set < 1<<len(b.ids); set++ {
		promised, covered, pods := map[int64]int64{}, map[int64]uint{}, map[int64][]string{}
		for _, p := range b.promises {
			if p.set&^set != 0 {
				continue
			}
			promised[p.page] += p.bytes
			pods[p.page] = append(pods[p.page], p.pod)
			if !b.exempt[p.pod] {
				covered[p.page] |= p.set
			}
		}
		for page, n := range promised {
			if has := b.within(set, page); n > has && covered[page] == set {
				errs = append(errs, fmt.Errorf("NUMA nodes %b promise %d bytes in pages of %d, and have %d: %v", set, n, page, has, pods[page]))
			}
		}
	}
	return errors.Join(errs...)
}

// within returns what the NUMA nodes of a set may promise in pages of a size.
func (b *memoryBooks) within(set uint, page int64) int64 {
	sum := int64(0)
	for i, has := range b.has {
		if set>>i&1 != 0 {
			sum += has[page]
		}
	}
	return sum
}
