// Package agent is the node agent: it keeps every workload that asked for it
// supplied with quota, and puts back what it changed.
//
// All work is done in steps, one at a time, under one mutex (controller): the loop's, and
// the answers to the container runtime, which wait for one step at most and never for
// systemd. Each step observes (usage, quota, throttling, events), lets the pure rooms
// decide (burst, place), hands what is desired to reconcile and remembers what the kernel
// made of it. A workload is in exactly one State at a
// time, and every State but Active carries the reason, which status and explain
// print.
//
// Time is monotonic and comes in through Options.Clock. Looks at a group are at
// most a second apart; groups whose looks fall close together share one wake-up.
//
// Files: loop.go is the clockwork; load.go reads what users wrote and attach.go
// finds the groups; quotas.go is what moves their quotas, with roster.go, all groups and
// those above them, and accounts.go, the ledgers that outlive them; workloadgroup.go is one
// workload, look.go one look at its group; follower.go is a group whose limits follow a container's: podgroup.go the group of
// its pod, nested.go the runtime's copies of its limit; beside.go reads the use of what
// runs in the pod without a limit;
// drift.go is what happens when another writer wrote, restore.go the way back;
// node.go reads how busy the node is, checkpoint.go is what survives a restart, serve.go
// and metrics.go are the windows to the outside. These know no capability by name:
// capabilities.go lists them, burstreport.go and placereport.go say what burst and place
// report, with burstmetrics.go, burstconfig.go, and burstreader.go for people. What a group, its pod and the copies of
// its limit must have, burst decides: the agent reads the facts and writes the decisions.
package agent
