// Package trial tests the plugin in a complete kube-scheduler: the real framework and queue, the real informers and
// clients. The API server is in memory, and can fail in the ways a real server does.
//
// The package has tests only. Each test starts a scheduler from a configuration file as a user would, creates nodes and
// pods, and checks the pods: their node and CPUs, or their condition.
package trial
