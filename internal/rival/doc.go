// Package rival picks CPUs the way two other pickers do, so that package bench
// can give the same arrivals to them and to Berth. It is written from the
// rules of those pickers, not from their code, and it is used for nothing but
// comparison.
//
// # Kubelet
//
// [Kubelet] follows the static policy of the kubelet's CPU manager and, where
// asked for, the topology manager, of Kubernetes 1.36. Whole sockets are taken
// first, then whole NUMA nodes (the other way round where a node holds a
// socket or more), then, with prefer-align-cpus-by-uncorecache, whole L3
// domains and the first one that has room for the rest in its lowest free
// cores, then whole cores, then single threads. On every level the candidates
// are sorted by the number of CPUs still free, the most used first, within the
// order of the levels above; ties go to the lower id. Nothing looks ahead: a
// node with two free cores is emptied before one that could hold the request.
//
// The topology manager has one provider of hints here, the CPUs: the narrowest
// set of NUMA nodes with enough free CPUs, of equally narrow ones that with the
// lower numbered nodes. best-effort takes the CPUs from there if there is one,
// restricted and single-numa-node refuse where it is wider than the request
// needs on an empty machine. Above eight NUMA nodes the kubelet does not start
// with a topology policy; the emulation then refuses everything.
//
// Left out: the distributing options, align-by-socket, the closest-node option,
// the reuse of an init container's CPUs, and that the kubelet insists on at
// least one reserved CPU.
//
// # Koordinator
//
// [Koordinator] follows the CPU accumulator of the scheduler plugin
// NodeNUMAResource of Koordinator 1.8, as its documentation and published
// studies describe it: sockets, NUMA nodes, cores and CPUs are known, L3
// domains and distances are not. FullPCPUs wants free whole cores: of one NUMA
// node if one has enough, else of one socket, else of all, and single threads
// last. SpreadByPCPUs wants one thread of as many cores. The node label
// numa-allocate-strategy says whether the fullest (MostAllocated) or the
// emptiest (LeastAllocated, Koordinator's default) node is tried first.
//
// Where the descriptions are silent the emulation does what keeps more together:
// a NUMA node that holds the request is looked for before any is filled up, and
// the odd thread comes from a core that is already broken, of the same node
// where possible. So a lead in closeness over this emulation is not owed to a
// detail that was guessed.
//
// Left out: shared and amplified CPUs, exclusive policies (which are mutual
// there only between pods of the same policy), reservations.
package rival
