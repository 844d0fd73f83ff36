// Package node tests the agent on a node of a real Kubernetes: the cluster of package local, which
// every test shares, with containerd, the kubelet and berth as they ship.
//
// What a test expects is compared by a witness, which knows nothing of Berth's own code: it reads
// pods from the API server, control groups and /proc of this machine, and what containerd wrote
// down when it made a container. Its law is that the annotation, the answer to the runtime, the file
// of the control group and the mask of every thread say the same, and that no other thread runs on a CPU
// that a container has for itself. It looks all the time, and once more at the end of each test.
//
// The cluster is started anew, and nothing of it is left. On a machine where one is up already the
// tests are skipped, unless BERTH_NODE_CLUSTER=running: then they use it, hurt it, and leave it up, as
// they do in the cluster of package local's test (`make node`, `make verify-node`).
//
// Two faults are not made here. A reboot would be one of this machine: package journal tests entries
// of another boot, and the test of the tour cuts the power of the node in the virtual machine. A CPU
// that goes offline is taken out of every version 1 cpuset of the machine for good; that is done there,
// too.
//
//	BERTH_NODE_CHURN    how many times a pod comes, changes or goes at random (default 48)
//	BERTH_SEED          repeats one such history
//	BERTH_NODE_AWAY     how long the API server is away (default 10s)
//	BERTH_NODE_STARTS   how many containers print their masks (default 100)
//	BERTH_NODE_WINDOWS  how many containers start without NRI (default 25)
//	BERTH_NODE_RESIZES  how many times a pinned pod is resized up, up and down, or with fewer than 4
//	                    CPUs to the same number (default 1)
//	BERTH_NODE_CHANGES  how many changes of a policy are timed (default 20)
//	BERTH_NODE_FIGURES  a file that gets the figures as JSON, too
package node
