// Package plan holds the settings of the host as data: who wants which value
// in which file of which group, and why.
//
// A pass of the agent turns wishes into changes in two steps, each a pure
// function over values. There is one owner, and it wishes for each target once,
// so there is nothing to merge.
//
//  1. Diff drops what already stands. Values that the kernel itself scaled
//     (a too short period is doubled with its quota and burst) count as
//     standing.
//  2. Order sorts the rest so that the kernel accepts every single write, if
//     it accepts the host before the first and after the last of them.
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
package plan
