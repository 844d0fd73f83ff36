// Package inventory knows what runs on this node: the pods, from the API server and the kubelet, and their containers
// and groups, from the container runtime. It joins the two, asks package place which containers have which CPUs, and
// the strategies which pods may burst. It returns plain values: the answer to the runtime, the desired state of every
// group, the groups that may burst, and the events to report.
//
// It writes nothing and waits for nothing. The pod's UID and the container's name join pod and container. A container's
// group always comes from the runtime, never from names. The kubelet may hear of a pod before the agent does, so the
// runtime may report a container of an unknown pod. Until the pod is known, the Inventory uses the runtime's data and
// the placement in it. The caller of Handle decides how long to wait for the pod (ErrUnknownPod). A pod may also be
// known before it has an object on the API server, such as a static pod: the Inventory stores what to write to it until
// then.
//
// An Inventory joins small types, each with one concern. They are pods from the cluster, policies, caps (what the
// administrator's rules refuse), containers from the runtime, the answers to it, the owner of CPU sets, and the events.
// Only the Inventory knows more than one of them, and place.
//
// Files: inventory.go is what is known and desired, cpus.go which containers have which CPUs, and take.go the cluster's
// data, with pods.go and policies.go. events.go has the runtime's events and requests, containers.go the containers.
// answers.go has Berth's answers, which separate Berth's sets from those of other owners; foreign.go finds other
// owners, and renew.go updates the answers. owner.go says whether Berth may set the CPU sets of this node.
//
// early.go has the pods that only the runtime has reported, standalone.go the workloads of a host without Kubernetes,
// and report.go the events and annotations to write. burst.go has the groups that may burst, facts.go the containers as
// every capability sees them, and caps.go the rules.
package inventory
