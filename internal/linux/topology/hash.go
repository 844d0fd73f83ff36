package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Hash identifies the properties that placements depend on: the core, L3 domain, NUMA node and socket of every online
// CPU. It does not depend on memory sizes, distances, kinds, isolated CPUs or warnings. It has 16 hexadecimal digits.
// It identifies L3 domains by their CPUs, so that new L3 ids do not change the hash.
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
