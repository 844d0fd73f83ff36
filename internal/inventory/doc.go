// Package inventory knows what runs on this node: the pods, as the API server and the
// kubelet report them, and their containers and groups, as the container runtime reports
// them. It joins the two, asks place which containers have which CPUs, and the strategies
// which pods may burst, and returns what follows as plain values: what to answer the
// runtime, what is desired for every group, which groups may burst, and which events to
// report.
//
// It writes nothing and waits for nothing. The pod's UID and the container's name join pod
// and container; a container's group is the one that the runtime says, never one made up
// from names. The runtime may report a container before the agent knows its pod, because
// the kubelet heard of the pod first: then what the runtime says of the pod, and the
// placement that comes with it, have to do until the pod is known, and the caller of Handle
// decides how long to wait for it (ErrUnknownPod). A pod may also be known before it has an
// object on the API server, as static pods are: the Inventory keeps what to write to it
// until then.
//
// An Inventory joins small types, each with one concern: pods as the cluster reports them,
// policies, caps (what the administrator's rules refuse), containers as the runtime reports
// them, the answers to the runtime, the owner of this node's CPU sets, and the events to
// report. Only the Inventory knows more than one of them, and place.
//
// Files: inventory.go is what is known and desired, cpus.go who has which CPUs, take.go what the cluster reports, with
// pods.go and policies.go; events.go what the runtime reports and asks, containers.go what
// is known of containers by it; answers.go what Berth answered it, which separates Berth's sets from
// those of other owners, which foreign.go finds, and renew.go brings up to date; owner.go whether the
// CPU sets of this node are Berth's to set; early.go the pods that only the runtime has reported,
// standalone.go the workloads of a host without Kubernetes, report.go the events and annotations to
// write, burst.go the groups that may burst, facts.go the containers as every capability goes by them,
// caps.go the rules.
package inventory
