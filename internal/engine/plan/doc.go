// Package plan describes the settings of the host as data: which owner desires which value of which target, and why.
// The driver of a target knows whether it is a file or a unit of systemd; plan knows what the driver says about the
// values (Kind).
//
// A pass of the agent turns desired values into changes in two steps, each a pure function over values. No two owners
// desire the same target (OneOwner), so there is nothing to merge.
//
//  1. Diff drops every value that is already in effect. A value that the kernel itself scaled is treated as in effect
//     (it doubles a too short period with its quota and burst).
//  2. Order sorts the remaining changes so that the kernel accepts every single write, if it accepts the host before
//     the first write and after the last.
//
// The rules below apply to the shapes that a driver gives its values (Form). A value without a shape has no rule and
// may be written in any order.
//
// # Quotas
//
// Two rules of the kernel decide the order (kernel/sched/core.c, tg_set_cfs_bandwidth and tg_cfs_schedulable_down):
//
//   - Within a group a finite quota must be at least the burst. A new burst that does not fit under the old quota is
//     written after the quota; an old burst that does not fit under the new quota is lowered before it.
//   - On cgroup v1 the ratio quota/period of a group must not exceed that of its nearest limited ancestor. So widening
//     writes go first, from the root down. Narrowing writes follow, from the leaves up. cgroup v2 accepts any order
//     here, and this order does no harm there.
//
// Each rule ties only two targets together, and a widening is never tied to a narrowing of another group. Therefore one
// sorted list satisfies both rules.
//
// # CPUs and memory nodes
//
// The first rule is the kernel's; the second is the meaning of exclusive CPUs:
//
//   - On cgroup v1 a child's list is a subset of its parent's at all times. On v2 a group whose list shares nothing
//     with its parent's runs, silently, on all that the parent has.
//   - A pinned group (OwnerPlace) never shares a CPU with another group, and an offline group (OwnerIsolate) never
//     shares a CPU with an online group. This holds even between two writes: one group releases a CPU before another
//     group gets it. A CPU that a pinned group borrows also belongs to another group. Order treats it like a reserved
//     CPU, because a list does not say which of its CPUs are reserved. Waiting until a borrower leaves costs nothing.
//
// Narrowing goes first, from the leaves up; widening goes last, from the root down; a list that moves does both, one
// after the other. That satisfies the two rules for any number of groups. Only a list that moves to a disjoint list
// cannot do so in two steps, as no list may be empty. It jumps in one step. The groups above it widen before and narrow
// after the jump. Among groups that jump, the group that leaves CPUs goes before the group that gets them. Two groups
// that exchange all of their CPUs cannot do so without sharing CPUs for a moment; the code that chooses CPUs avoids
// such an exchange.
//
// One rule between quotas and lists is a courtesy, not the kernel's: a pinned group loses its quota after its CPUs were
// narrowed, and gets it back before they are widened. So no group is ever without a limit on CPUs that are not its own.
package plan
