// Package rival picks CPUs the way two other pickers do, so that package bench can give the same arrivals to them and
// to Berth. It is written from the rules of those pickers, not from their code, and serves only for comparison.
//
// # Kubelet
//
// [Kubelet] follows the static policy of the kubelet's CPU manager and, if requested, the topology manager, of
// Kubernetes 1.36. It takes whole sockets first, then whole NUMA nodes (in reverse order where a node contains a socket
// or more). With prefer-align-cpus-by-uncorecache it then takes whole L3 domains, and the first domain that has room
// for the remainder in its lowest free cores. Then it takes whole cores, then single threads. On every level it sorts
// the candidates by the number of free CPUs, the most used first, within the order of the levels above; ties go to the
// lower id. It does not plan ahead: it empties a node with two free cores before a node that could hold the request.
//
// The topology manager has one provider of hints here, the CPUs: the narrowest set of NUMA nodes with enough free CPUs,
// and among equally narrow sets the set with the lower-numbered nodes. best-effort takes the CPUs from that set if it
// exists; restricted and single-numa-node refuse a set that is wider than the request needs on an empty machine. Above
// eight NUMA nodes the kubelet does not start with a topology policy; the emulation then refuses everything.
//
// Left out: the distributing options, align-by-socket, the closest-node option, the reuse of an init container's CPUs,
// and the kubelet's demand for at least one reserved CPU.
//
// # Koordinator
//
// [Koordinator] follows the CPU accumulator of the scheduler plugin NodeNUMAResource of Koordinator 1.8, as its
// documentation and published studies describe it. It knows sockets, NUMA nodes, cores and CPUs, but not L3 domains and
// distances. FullPCPUs takes free whole cores: of one NUMA node if a node has enough, else of one socket, else of all,
// and single threads last. SpreadByPCPUs takes one thread from as many cores as possible. The node label
// numa-allocate-strategy decides whether the fullest (MostAllocated) or the emptiest (LeastAllocated, Koordinator's
// default) node is tried first.
//
// Where the descriptions are silent, the emulation keeps more CPUs together. It looks for a NUMA node that holds the
// request before it fills any node. It takes the odd thread from a partly used core, of the same node if possible. So a
// lead in closeness over this emulation does not come from a guessed detail.
//
// Left out: shared and amplified CPUs, exclusive policies (mutual in Koordinator only between pods of the same policy),
// reservations.
package rival
