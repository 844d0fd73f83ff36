// Package follower has the groups that limit a container in addition to its own group: the group of its pod above it,
// and the runtime's copies of its limit below it. Each of them would throttle what the container's group allows, and
// therefore follows that group. Package burst computes the values; package quota decides when to check a follower.
//
// Files: follower.go has one such group and its limits; pod.go has the group of a pod; beside.go has the containers of
// a pod that do not burst, whose use is charged to the bursting containers.
package follower
