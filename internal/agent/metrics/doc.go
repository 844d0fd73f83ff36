// Package metrics serves /metrics: the measurements of the capabilities, the agent's own work, the process, and the CPU
// time and memory of the host. The list of possible metrics is known without an agent, so that documents, dashboards and
// alert rules can be checked against it.
//
// Each scrape collects the samples of capabilities under the agent's lock. A scrape changes nothing, so that any number
// of readers see the same. The labels namespace, pod and container name a workload, or the label workload on a host
// without Kubernetes. Its group is never a label, because it changes with each restart.
package metrics
