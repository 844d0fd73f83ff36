// Package quota decides the quotas of workload groups by the law of package burst. It is the capability burst in the
// agent.
//
// Groups gets the groups of workloads from the roster, checks each when its check is due, and lets burst decide. It
// writes nothing: the agent has reconcile.Quotas write its Moves. A check reads as little as possible: the usage always,
// the quota once a second, all other values every five seconds or when one of the two moved. Checks are at most a second
// apart; groups whose checks are close together share one wake-up. A workload is in one State at a time; all except
// Active have a reason.
//
// Another group that would throttle a container rises with it (package follower).
//
// Files: groups.go has the type, follow.go adds groups from the roster and releases them; set.go has all groups and the
// limits from the groups above, accounts.go the ledgers that outlive groups. group.go is one workload, look.go one
// check of its group, and of groups that do not burst. pods.go and nested.go adapt the other groups that limit a
// container. pool.go is how busy the node is, report.go what is reported.
package quota
