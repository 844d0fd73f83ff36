// Package transport tests the node agent's connections against real programs: a containerd that belongs to the test,
// with its own directories, sockets and control groups. The tests create pods over CRI, as the kubelet does. Every
// container runs the program mask, which first prints the CPUs and memory nodes that it started with. A kubelet of the
// test runs a static pod there, beside an API server that authorizes its clients.
//
// The tests need root and the programs that `go -C test/cluster run ./programs build` builds. Without them the tests
// are skipped, or fail with BERTH_CLUSTER=require. BERTH_TRANSPORT_STARTS is how many pinned containers TestManyStarts
// starts (default 10).
package transport
