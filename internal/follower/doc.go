// Package follower has the groups that limit a container besides its own: the group of its pod above it, and the
// runtime's copies of its limit below it. Each would throttle what the container's group allows, so it follows that.
// What the law asks of one is burst's to say; package quota knows when one is looked at.
//
// Files: follower.go is one such group, and what of it limits; pod.go is that of a pod; beside.go is what runs in a pod
// beside the containers that burst, and is charged to them.
package follower
