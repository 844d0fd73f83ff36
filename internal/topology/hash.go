package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Hash identifies the shape that placements depend on: for every online CPU
// its core, L3 domain, NUMA node and socket, and nothing else (no memory size,
// distance, kind, isolated CPU or warning). 16 hexadecimal digits. L3 domains
// count by their CPUs, so that renumbering them changes nothing.
func (t *Topology) Hash() string {
	l3 := map[L3ID]int{None: None}
	for _, domain := range t.L3 {
		l3[domain.ID], _ = domain.CPUs.Min()
	}
	h := sha256.New()
	for _, core := range t.Cores {
		lowest, _ := core.CPUs.Min()
		// Writing to a hash cannot fail.
		_, _ = fmt.Fprintf(h, "%d %s %d %d %d\n", lowest, core.CPUs, l3[core.L3], core.Node, core.Socket)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
