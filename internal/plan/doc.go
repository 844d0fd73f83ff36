// Package plan holds the settings of the host as data: who wants which value
// of which target, and why. What a target is, a file or a unit of systemd, is known
// to its driver; plan knows what the driver says of the values (Kind).
//
// A pass of the agent turns desired values into changes in two steps, each a pure
// function over values. No two owners want the same target (OneOwner), so there is
// nothing to merge.
//
//  1. Diff drops what already stands. Values that the kernel itself scaled
//     (a too short period is doubled with its quota and burst) count as
//     standing.
//  2. Order sorts the rest so that the kernel accepts every single write, if
//     it accepts the host before the first and after the last of them.
//
// The rules below are those of the shapes that a driver gives its values (Form). A
// value of no shape has no rule and goes in any order.
//
// # Quotas
//
// Two rules of the kernel decide the order (kernel/sched/core.c,
// tg_set_cfs_bandwidth and tg_cfs_schedulable_down):
//
//   - Within a group a finite quota must be at least the burst. A burst that
//     does not fit under the old quota follows the quota; an old burst that
//     does not fit under the new quota leaves before it.
//   - On cgroup v1 the ratio quota/period of a group must not exceed that of
//     its nearest limited ancestor. So what widens goes first, from the root
//     down, and what narrows goes after it, from the leaves up. cgroup v2
//     accepts any order here, and this one does no harm there.
//
// Both rules only ever tie two targets together, and a widening is never tied
// to a narrowing of another group: therefore one sorted list satisfies them all.
//
// # CPUs and memory nodes
//
// One rule is the kernel's, the other is what exclusive CPUs mean:
//
//   - On cgroup v1 a child's list is a subset of its parent's at all times. On
//     v2 a group whose list shares nothing with its parent's runs, silently, on
//     all that the parent has.
//   - A CPU of a pinned group (OwnerPlace) is never another group's at the same
//     time, and that of an offline group (OwnerIsolate) never an online group's,
//     also not for the moment between two writes: it is released before it is
//     taken. What a
//     pinned group borrows besides is another group's as well, and ordered alike:
//     a list does not say which CPUs of it are reserved, and waiting for a borrower
//     that leaves costs nothing.
//
// What narrows goes first, from the leaves up, what widens goes last, from the
// root down, and a list that moves does both, one after the other: that satisfies
// the two rules for whatever number of groups. Only a list that moves to another
// one which it shares nothing with cannot be taken in two steps, as no list may
// be empty. It jumps in one; the groups above it widen before and narrow after it,
// and among groups that jump whoever leaves goes before whoever comes. Two groups
// that exchange all of their CPUs cannot do so without touching; whoever chooses
// CPUs avoids it.
//
// Between the two kinds there is a courtesy: a pinned group loses its quota after
// its CPUs were narrowed, and has it back before they are widened, so that no
// group is ever without a limit on CPUs that are not its own.
package plan
