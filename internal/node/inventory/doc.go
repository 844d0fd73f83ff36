// Package inventory knows what runs on this node: the pods, from the API server and the kubelet, and their containers
// and groups, from the container runtime. It joins the two, and asks the strategies which pods may burst. It decides
// nothing about CPUs: package assignment does, by the Changes.
//
// It writes nothing and waits for nothing. The pod's UID and the container's name join pod and container. A container's
// group always comes from the runtime, never from names. The kubelet may hear of a pod before the agent does, so the
// runtime may report a container of an unknown pod. Until the pod is known, the Inventory uses the runtime's data and
// the placement in it. The caller of Creating decides how long to wait for the pod (ErrUnknownPod).
//
// An Inventory joins small types, each with one concern: pods from the cluster, policies, containers from the runtime
// with the answers to it, and the owner of CPU sets. Only the Inventory knows more than one of them.
//
// Files: inventory.go has what is known, changes.go what changed. take.go has the cluster's data, with pods.go and
// policies.go, events.go the runtime's events, and containers.go the containers. answers.go has Berth's answers, which
// separate Berth's sets from those of other owners, and foreign.go finds other owners. restore.go finds what old answers
// left behind. owner.go says whether Berth may set the CPU sets of this node.
//
// early.go has the pods that only the runtime has reported, unlisted.go the containers that it does not list, and
// standalone.go the workloads of a host without Kubernetes. burst.go has the groups that may burst, facts.go the
// containers that every capability reads.
package inventory
