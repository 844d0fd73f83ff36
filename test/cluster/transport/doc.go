// Package transport tests the lines of the node agent against the real thing: a containerd of
// the test's own, with its own directories, sockets and control groups, in which pods are made
// over CRI as the kubelet makes them. Every container runs the program mask, whose first act is
// to print the CPUs and memory nodes that it was started with. A kubelet of the test's own runs a
// static pod there, beside an API server that says who may ask it.
//
// It needs root and the programs that `go -C test/cluster run ./programs build` builds; without
// them the tests are skipped, and with BERTH_CLUSTER=require they fail. BERTH_TRANSPORT_STARTS
// is how many pinned containers TestManyStarts starts (default 10).
package transport
