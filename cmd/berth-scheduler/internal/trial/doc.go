// Package trial tries the plugin in a whole kube-scheduler: the real framework
// and queue, the real informers and clients, and in place of the cluster's API
// server one in memory that can fail in the ways a real one does.
//
// It has tests only. Each starts a scheduler from a configuration file as a
// user would, gives it nodes and pods, and looks at the pods that come out:
// where they are bound, with which CPUs, or what their condition says.
package trial
