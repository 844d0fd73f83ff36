// Package metrics is what the agent says on /metrics: what the capabilities
// measure, the agent's own work, and the process. Which metrics there can be is
// known without an agent, so that documents, dashboards and alert rules are held
// to it.
//
// Samples of capabilities are taken at each scrape, under the agent's lock; taking
// them changes nothing, so that any number of readers see the same. A workload is
// named by the labels namespace, pod and container, or by workload on a host
// without Kubernetes: never by its group, which is another one after each restart.
package metrics
