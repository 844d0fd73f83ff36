// Package agent is the node agent: it observes, has the capabilities decide, brings about
// what they desire, and puts back what it changed.
//
// All work is done in steps, one at a time, under one mutex (controller): the loop's, and
// the answers to the container runtime, which wait for one step at most and never for
// systemd. Once a second a step observes (files, pods, containers, the machine), lets each
// capability decide by that and by what those before it handed on, and gives all that is
// desired to reconcile. Between two of these, burst looks at the groups that are due
// (package quota). Place has its half of the agent in package pin.
//
// Time is monotonic and comes in through Options.Clock.
//
// Files: agent.go starts all, loop.go is the clockwork; load.go reads what users wrote,
// incluster.go and cluster.go what the cluster and the kubelet say; capabilities.go lists the
// capabilities; runtime.go answers the container runtime; report.go reports to people,
// checkpoint.go is what survives a restart, view.go is what commands are shown,
// serve.go and metrics.go are the windows to the outside.
package agent
