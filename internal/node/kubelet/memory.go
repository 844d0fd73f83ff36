package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	// plainMemory and hugePrefix are the kinds of memory in the PodResources API.
	plainMemory = "memory"
	hugePrefix  = "hugepages-"
	// mostMemory, 1 PiB, bounds the memory of a container and the size of a page.
	mostMemory = 1 << 50
)

// Memory is memory that the memory manager gave to a container of a pod: an amount in some NUMA nodes, in pages of one
// size.
type Memory struct {
	// Pod is "namespace/name".
	Pod   string
	Nodes cpuset.Set
	// PageBytes is 0 for memory without huge pages.
	PageBytes int64
	Bytes     int64
}

// Memory asks the kubelet's PodResources API what its memory manager gave to each pod, sorted by pod. Without a socket
// the error is ErrNoState.
func (s Source) Memory(ctx context.Context) (all []Memory, err error) {
	err = s.ask(ctx, func(ctx context.Context, api podresources.PodResourcesListerClient) error {
		answer, err := api.List(ctx, &podresources.ListPodResourcesRequest{})
		all = memoryOf(answer.GetPodResources())
		return err //nolint:wrapcheck // ask wraps it with the socket
	})
	if err != nil {
		return nil, fmt.Errorf("memory of the kubelet's pods: %w", err)
	}
	return all, nil
}

func memoryOf(pods []*podresources.PodResources) []Memory {
	var all []Memory
	for _, pod := range pods {
		for _, container := range pod.GetContainers() {
			for _, block := range container.GetMemory() {
				size, known := pageBytes(block.GetMemoryType())
				m := Memory{Pod: pod.GetNamespace() + "/" + pod.GetName(), PageBytes: size, Bytes: int64(min(block.GetSize(), mostMemory))}
				for _, node := range block.GetTopology().GetNodes() {
					m.Nodes = m.Nodes.Add(int(node.GetID()))
				}
				if known && m.Bytes > 0 && !m.Nodes.IsEmpty() {
					all = append(all, m)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Memory) int {
		return cmp.Or(strings.Compare(a.Pod, b.Pod), cmp.Compare(a.PageBytes, b.PageBytes),
			strings.Compare(a.Nodes.String(), b.Nodes.String()), cmp.Compare(a.Bytes, b.Bytes))
	})
	return all
}

// pageBytes returns the page size of a kind of huge pages, 0 for plain memory.
func pageBytes(kind string) (size int64, known bool) {
	text, huge := strings.CutPrefix(kind, hugePrefix)
	if !huge {
		return 0, kind == plainMemory
	}
	bytes, err := resource.ParseQuantity(text)
	size = bytes.Value()
	return size, err == nil && size >= 1024 && size <= mostMemory
}

// TakeMemory records the memory of a reading, and reports whether it changed. While the kubelet does not answer, its
// last answer remains. It also remains for some readings without memory: after a restart the kubelet lists memory only
// when its manager has read its state.
func (k *Knowledge) TakeMemory(r Reading) (changed bool) {
	if k.MemoryErr = r.MemoryErr; r.MemoryErr != nil {
		return false
	}
	if k.emptied++; len(r.Memory) > 0 || len(k.Memory) == 0 {
		k.emptied = 0
	}
	if k.emptied > 0 && k.emptied < keepGone || slices.Equal(k.Memory, r.Memory) {
		return false
	}
	k.Memory = r.Memory
	return true
}
