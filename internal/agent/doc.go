// Package agent is the node agent: it observes, lets the capabilities decide, applies their desired settings, and
// restores what it changed.
//
// All work is done in steps, one at a time, under one mutex (controller): the steps of the loop, and the answers to the
// container runtime, which wait for one step at most and never for systemd. Once a second a step observes files, pods,
// containers and the machine. It then lets each capability decide from that and from the results of earlier
// capabilities, and gives all desired settings to reconcile. Between two such steps, burst looks at the groups that are
// due (package quota). Place has its half of the agent in package pin.
//
// Time is monotonic and comes in through Options.Clock.
//
// Files: agent.go starts everything, and loop.go is the loop. load.go reads the files of users, incluster.go and
// cluster.go the data of the cluster and the kubelet. capabilities.go lists the capabilities, and what the loop asks of
// them: no other file calls one by its name. runtime.go answers the container runtime. report.go reports to people,
// checkpoint.go survives a restart, view.go serves commands, serve.go and metrics.go serve the outside.
package agent
