package topology_test

import (
	"fmt"
	"os"

	"github.com/berth-project/berth/internal/linux/topology"
)

// Which CPUs share a core with CPU 0, and which memory is next to it? The
// machine is a recording; os.DirFS("/") is the live host.
func ExampleDiscover() {
	text, err := os.ReadFile("../../../testdata/machines/two-socket-ht.txtar")
	if err != nil {
		fmt.Println(err)
		return
	}
	recording, err := topology.ParseRecording(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	machine, err := topology.Discover(recording)
	if err != nil {
		fmt.Println(err)
		return
	}
	core := machine.Cores[0]
	fmt.Printf("core %d: CPUs %s, NUMA node %d\n", core.ID, core.CPUs, core.Node)
	for _, n := range machine.Nodes {
		fmt.Printf("NUMA node %d: CPUs %s, %d GiB, distances %v\n", n.ID, n.CPUs, n.MemoryBytes>>30, n.Distances)
	}
	// Output:
	// core 0: CPUs 0,16, NUMA node 0
	// NUMA node 0: CPUs 0-7,16-23, 8 GiB, distances [10 21]
	// NUMA node 1: CPUs 8-15,24-31, 8 GiB, distances [21 10]
}

// May a placement that was made for one machine be used on another? It may if their hashes are equal: memory, and
// caches other than L3, do not affect the hash.
func ExampleTopology_Hash() {
	before, _ := topology.Decode([]byte(`{"online":"0-3","cores":[{"id":0,"cpus":"0-1"},{"id":2,"cpus":"2-3"}]}`))
	after, _ := topology.Decode([]byte(`{"online":"0-3","cores":[{"id":0,"cpus":"0,2"},{"id":1,"cpus":"1,3"}]}`))
	fmt.Println(before.Hash() == after.Hash())
	// Output: false
}
