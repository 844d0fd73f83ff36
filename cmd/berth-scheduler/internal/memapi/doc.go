// Package memapi is a Kubernetes API server in memory, as small as a scheduler allows. It serves JSON objects by
// resource and name: list, watch (also the streamed list), create, update, patch and delete. It binds pods with the
// rules of a real server: the UID is a precondition, a second binding fails, and the annotations reach the pod in the
// same step as the node's name.
//
// It is for tests. It omits what a scheduler cannot see of a real server (validation, quotas, admission, other
// versions). Tests can provoke failures: a missing resource, an unreachable server, an answer lost before or after the
// write.
package memapi
