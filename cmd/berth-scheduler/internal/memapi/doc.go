// Package memapi is a Kubernetes API server in memory, as thin as a scheduler
// allows: JSON objects by resource and name, list, watch (also the streamed
// list), create, update, patch and delete, and the binding of a pod with the
// rules of the real one (UID as precondition, no second binding, annotations
// copied to the pod in the same step as the node's name).
//
// It is a test's instrument. What a real server does and a scheduler cannot
// see (validation, quotas, admission, other versions) is left out. What a
// test must be able to provoke is built in: a resource that does not exist, a
// server that is away, an answer that is lost after or before the work.
package memapi
