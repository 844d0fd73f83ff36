// Package containers reports the events of a Kubernetes node's container runtime: over NRI, where the runtime asks
// before it creates a container, and over CRI while NRI is away.
//
// Over CRI the package lists the whole state, as one nri.Synchronize without an answer. Until a new container is
// listed, it runs on the CPUs of other containers. NRI and CRI never report at once. NRI may be away for some seconds,
// for example after a restart of the runtime, before CRI replaces it.
package containers
