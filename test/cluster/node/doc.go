// Package node tests the agent on a node of a real Kubernetes: the cluster of package local, which all tests share,
// with containerd, the kubelet and the shipped berth.
//
// A witness, which uses none of Berth's own code, checks every test. It reads pods from the API server, control groups
// and /proc of this machine, and the configuration that containerd wrote for each container. Its law has two parts. The
// annotation, the answer to the runtime, the file of the control group and the mask of every thread agree. No other
// thread runs on a CPU that a container has exclusively. It checks continuously, and once more at the end of each test.
//
// The tests start a new cluster and leave nothing of it. On a machine where a cluster already runs, the tests are
// skipped, unless BERTH_NODE_CLUSTER=running: then they use that cluster, kill parts of it, and leave it running. The
// test of package local does so with its own cluster (`make node`, `make verify-node`).
//
// These tests do not cause two faults. A reboot would reboot this machine: package journal tests entries of another
// boot, and the test of the tour cuts the power of the node in the virtual machine. A CPU that goes offline disappears
// permanently from every version 1 cpuset of the machine; the test of the tour covers that as well.
//
//	BERTH_NODE_CHURN    how many times a pod is created, changed or deleted at random (default 48)
//	BERTH_SEED          repeats such a history
//	BERTH_NODE_AWAY     how long the API server is down (default 10s)
//	BERTH_NODE_STARTS   how many containers print their masks (default 100)
//	BERTH_NODE_WINDOWS  how many containers start without NRI (default 25)
//	BERTH_NODE_RESIZES  how many times a pinned pod is resized up, up and down, or with fewer than 4
//	                    CPUs to the same number (default 1)
//	BERTH_NODE_CHANGES  how many changes of a policy are timed (default 20)
//	BERTH_NODE_FIGURES  a file that also gets the figures, as JSON
//	BERTH_PROMETHEUS    the program of Debian's package prometheus, for the case Prometheus
package node
