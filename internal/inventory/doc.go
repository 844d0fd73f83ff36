// Package inventory knows who lives on this node: the pods, as the API server and
// the kubelet tell them, and their containers and groups, as the container runtime
// tells them. It brings the two together, asks place who has which CPUs, and
// the strategies who may burst, and hands out what follows as plain values: what to
// answer the runtime, what every group should have, which groups may burst, and
// what people are to be told.
//
// It writes nothing and waits for nothing. Pod and container are joined by the
// pod's UID and the container's name; a container's group is the one that the
// runtime says, never one made up from names. A container may be known before its
// pod, because the kubelet was told of the pod before the agent was: then what the
// runtime says of the pod, and the placement that comes with it, have to do until the
// pod is known, and the handler's caller decides how long to wait for it
// (ErrUnknownPod). A pod may also be known before it has an object on the API server,
// as static pods are: what is to be written to it is kept until then.
//
// Files: inventory.go is what is known, take.go what the cluster says, events.go what
// the runtime says and asks, answers.go what it was answered, by which Berth's sets are
// told from those of other owners, early.go the pods that only the runtime tells of, news.go
// what is to be told and written, burst.go the groups that may burst, owner.go whether
// the CPU sets of this node are Berth's to set.
package inventory
