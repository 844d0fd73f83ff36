// Package credit decides how high a group's CPU quota may stand: pure functions
// of what a look at the group found, of its account, and of the time as a value.
// Package burst keeps the state of this law for each group.
//
// # The idea
//
// A limit of L CPUs is enforced by the kernel period by period, and so cuts off
// peaks of a few milliseconds of a group whose mean is far below L. Berth lets
// such a group use in a peak what it left unused before. It keeps an account of
// credit per group and, while the account can pay, lets the quota stand at a
// ceiling above the limit beforehand, because a peak that has been seen is over
// before anybody could react. Without credit the quota stands at the limit, never
// below.
//
// # Credit
//
// Credit is counted in CPU-seconds and comes only from the group's cumulative
// usage counter. From one look to the next L x time comes in and the use goes
// out; it is never more than the capacity
//
//	C = periodSeconds x L x (percent/100 - 1)
//
// and it may go negative: a debt is carried. The account is full when a group is
// first seen, and empty when the group is found standing above its limit.
//
// The use between two looks is charged after the income has been cut to C, not
// before: a group may have been idle until the account was full and have used
// everything just before the look. Cutting afterwards would give it up to
// L x (time between looks) on top of C. How much may be presumed to have been
// used in one go is limited by what the kernel allows (Ledger.Advance).
//
// # Exposure and reserve
//
// A write of the quota refills the group's pool at once and forgives what its
// CPUs owe, whether it raises or lowers (tg_set_cfs_bandwidth). This is reserved
// beforehand instead of charged afterwards. With n CPUs in the group's set, the
// period P, the kernel's own burst B, and e = n x (bandwidth slice + one tick)
// for what CPUs hold of an earlier quota or run past the present one, a group
// that has been put back to its limit can exceed it once by no more than
//
//	R = 2 x L x P + B + e
//
// and under a quota of Q CPUs it can use, until a look D away,
//
//	E = n x D + e                     if Q >= n
//	E = Q x D + 2 x Q x P + B + e     if Q < n
//
// where a Q counts as n that stands below it by no more than Apart takes.
//
// A quota above L stands only while credit + L x D >= E + R. After it has been
// lowered for lack of credit it is raised again only when credit exceeds that by
// a tenth of C, so that writes are few. D is as long as the caller likes, at most
// a second, and shorter when credit is short; when it would have to be shorter
// than 50 ms, the quota goes to the limit.
//
// E is the bound for a look that comes exactly D later, Q x P x (2 + D/P) or n x D
// if that is less, made safe against a look that comes later: with the round-down
// of D/P, or with n x D where Q < n, one moment of delay could cost a whole quota
// or n CPUs, where the bound below grants Q. The E here grows by min(Q, n) for
// each second of delay and no faster.
//
// # The bound
//
// Over every window of length T, by the usage counter (give or take one tick a
// CPU),
//
//	use <= L x T + max(C, R) + (min(Q, n) - L) x S
//
// where S is how late the look came at which the window ends. If the agent was
// silent for so long that more than C was used between two looks, the debt is
// forgiven as far as it only might exist, and S includes that silence. It holds
// as long as only Berth writes the quota, and for the fair classes: real-time
// threads are outside of any quota.
//
// From Linux 6.18 on a throttled thread goes on in kernel mode until it returns to user space
// (throttle_cfs_rq_work). What it uses until then account_cfs_rq_runtime adds to what its CPU owes,
// which tg_set_cfs_bandwidth forgives and the account does not. With K the longest that the threads
// of a CPU go on like that, a group under a limit alone exceeds it by X = n x K, and the bound above
// is larger by 2 X: before the quota is lowered, and after. No reserve covers that: nobody knows K,
// which for one system call may be seconds. The property tests hold the law against a
// model of the kernel, and show that each of these parts is needed.
//
// # Beside the group
//
// In a pod, a group may run that has no limit of its own: nothing holds it but the
// quota of the pod, which rises with the groups that burst. What it uses beyond the
// pod's limit less the limits in the pod goes out of their accounts, in proportion to
// their limits. While it is there, with n the CPUs that either can use, the pod's own
// quota L' x P, its burst B' and its e',
//
//	R = 2 x L x P + B + e + 2 x L' x P + B' + e'
//	E = n x D + e + e'
//
// and the bound above is that of the pod, with L', with the sum of C and R over its
// accounts, and with n for min(Q, n). Such a group is seen within a second; that second
// counts as S. Without a credit limit there is no account that could pay, and the
// pod's raised quota is all that holds it.
//
// # The types
//
// Decide takes a Policy, a Ledger (the account) and Facts (what one look found), and returns
// the next Ledger and a Decision with its Reason. It reads and writes nothing: the caller
// fills in Facts, and writes the Decision.
package credit
