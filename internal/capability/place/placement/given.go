package placement

import (
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Given is memory of NUMA nodes that programs other than Berth gave to pods. It never changes.
type Given struct{ bounds []bound }

// GivenBy returns the memory that the kubelet's memory manager gave to pods without a placement. It leaves out memory
// that is not of some NUMA nodes of the machine, or is of all nodes with memory: the requests of these pods are counted
// like all others.
func GivenBy(t *topology.Topology, all []v1alpha1.KubeletMemory) Given {
	var o Occupancy
	for _, one := range all {
		ids, err := cpuset.Parse(string(one.NUMANodes))
		if err != nil || one.PageKiB < 0 || one.PageKiB > mostBytes/kibibyte || one.Bytes <= 0 || one.Bytes > mostBytes {
			continue
		}
		if nodes := maskOf(t, ids); nodes != 0 {
			o.bind(bound{nodes, one.PageKiB * kibibyte, one.Bytes, one.Bytes})
		}
	}
	return Given{o.bounds}
}

const kibibyte = 1024

// Equal reports whether both are the same.
func (g Given) Equal(other Given) bool { return slices.Equal(g.bounds, other.bounds) }

// AddGiven adds memory that other programs gave to pods.
func (o *Occupancy) AddGiven(g Given) {
	for _, b := range g.bounds {
		o.bind(b)
	}
}
