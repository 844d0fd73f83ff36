// Package quota keeps the quotas of workload groups where burst decides them. It is the
// capability burst in the agent; the law is package burst.
//
// Groups takes the groups of workloads from the roster, looks at each when its look is due, lets burst decide, and has
// the decision written (reconcile.Quotas). A look reads as little as it can: the usage always, the quota once a second,
// all else every five seconds or when one of the two moved. Looks are at most a second apart; groups whose looks fall
// close together share one wake-up. A workload is in one State at a time; all but Active carry the reason.
//
// What would throttle a container besides its own group rises with it (package follower).
//
// Files: groups.go is the whole, follow.go takes groups up from the roster and lets go of them; set.go has all groups
// and what those above leave to them, accounts.go the ledgers that outlive them; group.go is one workload, look.go one
// look at its group, and at those that do not burst; pods.go and nested.go bring what limits a container besides its
// group to where that stands; pool.go is how busy the node is, report.go what is reported.
package quota
