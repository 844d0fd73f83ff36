// Package cluster tests berth-scheduler against a real Kubernetes API. etcd and kube-apiserver run as child processes,
// and nodes are objects without a kubelet. The scheduler is the shipped program with the shipped configuration, rights
// and definitions.
//
// `go run ./programs build` builds the programs once, into the user's cache directory. Without them the tests are
// skipped, or fail with BERTH_CLUSTER=require. BERTH_CLUSTER_EVENTS is the number of events of the random trace
// (default 2,000), and BERTH_SEED repeats a trace. BERTH_CLUSTER_LOGS is a directory for the logs of all programs.
// BERTH_CLUSTER_AWAY is how long the API server is down in TestAPIServerAway.
package cluster
