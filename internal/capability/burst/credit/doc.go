// Package credit decides how high a group's CPU quota may be. It consists of pure functions of one sample of the
// group, of its account, and of the time as a value. Package burst keeps the state of this law for each group.
//
// # The idea
//
// The kernel enforces a limit of L CPUs period by period. It therefore cuts off peaks of a few milliseconds in a group
// whose mean use is far below L. Berth lets such a group spend in a peak what it left unused before. Berth keeps an
// account of credit per group. While the account can pay, Berth raises the quota to a ceiling above the limit in
// advance, because a peak is over before anybody could react to it. Without credit the quota is at the limit, never
// below.
//
// # Credit
//
// Credit is counted in CPU-seconds and comes only from the group's cumulative usage counter. Between two samples, L x
// time is added and the use is subtracted. Credit is never more than the capacity
//
//	C = periodSeconds x L x (percent/100 - 1)
//
// and it may become negative: a debt is carried over. The account is full when a group is first seen, and empty when
// the group's quota is found above its limit.
//
// The use between two samples is charged after the income has been cut to C, not before. A group may have been idle
// until the account was full, and may have used everything just before the sample. Cutting afterwards would give it up
// to L x (time between samples) on top of C. The kernel limits how much may be presumed to have been used at once
// (Ledger.Advance).
//
// # Exposure and reserve
//
// A write of the quota refills the group's pool at once and forgives what its CPUs owe, whether the write raises or
// lowers the quota (tg_set_cfs_bandwidth). Berth reserves this in advance instead of charging it afterwards.
//
// Let n be the number of CPUs in the group's set, P the period, and B the kernel's own burst. Let e = n x (bandwidth
// slice + one tick) be the time that CPUs hold from an earlier quota or run past the present one. A group whose quota
// was lowered to its limit can exceed the limit once by no more than
//
//	R = 2 x L x P + B + e
//
// and under a quota of Q CPUs it can use, until a sample D later,
//
//	E = n x D + e                     if Q >= n;
//	E = Q x D + 2 x Q x P + B + e     if Q < n
//
// A Q that is below n by no more than Apart subtracts is treated as n.
//
// The quota is above L only while credit + L x D >= E + R. After Berth has lowered it for lack of credit, Berth raises
// it again only when credit exceeds that by a tenth of C, so that writes are few. The caller chooses D, at most a
// second; D is shorter when credit is short. If D would have to be shorter than 50 ms, the quota is set to the limit.
//
// For a sample exactly D later, Q x P x (2 + D/P), or n x D if that is less, would be a bound. E is also safe for a
// later sample. With D/P rounded down, or with n x D where Q < n, one moment of delay could cost a whole quota or n
// CPUs; the bound below grants Q. E grows by min(Q, n) for each second of delay and no faster.
//
// # The bound
//
// Over every window of length T, by the usage counter (accurate to one tick per CPU), as Bound computes it,
//
//	use <= L x T + max(C, R) + (min(Q, n) - L) x S
//
// where S is the delay of the sample at the end of the window. An agent may be silent for so long that more than C is
// used between two samples. Berth then forgives the part of the debt that only might exist, and S includes that
// silence. The bound is valid as long as only Berth writes the quota, and for the fair classes: real-time threads are
// outside every quota.
//
// From Linux 6.18 on, a throttled thread continues in kernel mode until it returns to user space
// (throttle_cfs_rq_work). account_cfs_rq_runtime adds its use until then to what its CPU owes. tg_set_cfs_bandwidth
// forgives that; the account does not. Let K be the longest time that the threads of a CPU continue like that. A group
// under a limit alone exceeds it by X = n x K. The bound above is larger by 2 X: once before the quota is lowered, and
// once after. No reserve covers that: nobody knows K, which may be seconds for one system call. The property tests
// check the law against a model of the kernel, and show that each of these parts is needed.
//
// # Beside the group
//
// A pod may also run a group that has no limit of its own. Only the quota of the pod limits that group, and the pod's
// quota rises with the groups that burst. Its use beyond the pod's limit minus the limits in the pod is charged to the
// accounts of the bursting groups, in proportion to their limits. While it exists, let n be the CPUs that either group
// can use. Let L' x P be the pod's own quota, B' its burst and e' its e. Then
//
//	R = 2 x L x P + B + e + 2 x L' x P + B' + e';
//	E = n x D + e + e'
//
// and the bound above is the bound of the pod, with L', with the sum of C and R over its accounts, and with n for
// min(Q, n). Berth sees such a group within a second; that second is part of S. Without a credit limit no account
// could pay, and only the pod's raised quota limits the group.
//
// # The types
//
// Decide receives a Policy, a Ledger (the account) and Facts (one sample). It returns the next Ledger and a Decision
// with its Reason. It does no input or output: the caller fills in Facts, and writes the Decision.
package credit
