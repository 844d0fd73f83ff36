// Package containers is the container runtime of a node of Kubernetes as events: over NRI,
// where the runtime asks before it makes a container, and over CRI while that is away.
//
// Over CRI the runtime is asked for all that it has, which is one nri.Synchronize without an
// answer: containers that start run on the CPUs of others until they are seen. The two
// never report at once. NRI may be away for some seconds, as after a restart of the
// runtime, until CRI takes its place.
package containers
