// Package cluster tests berth-scheduler against a real Kubernetes API: etcd and kube-apiserver
// run as child processes, nodes are objects without a kubelet, and the scheduler is the
// program that ships, with the configuration, the rights and the definitions that ship.
//
// The programs are built once by `go run ./programs build` into the user's cache directory.
// Without them the tests are skipped, and with BERTH_CLUSTER=require they fail.
// BERTH_CLUSTER_EVENTS is the number of events of the random trace (default 2,000), and
// BERTH_SEED repeats one. BERTH_CLUSTER_LOGS keeps the logs of all programs in a
// directory of that name, and BERTH_CLUSTER_AWAY is how long the API server is away in
// TestAPIServerAway.
package cluster
