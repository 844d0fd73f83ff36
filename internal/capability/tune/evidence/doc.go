// Package evidence decides from measurements of a noisy, drifting host whether a change helps. It reports "better" for
// a change that does nothing in at most one of a hundred trials, however the host drifts, and however often the caller
// checks the trial.
//
// # Pairs
//
// A trial is a sequence of pairs. A pair is two blocks of the same length, one right after the other, one with the
// change and one without. A fair coin chooses the first block (Schedule, from a seed that is on disk before the first
// block). The process sees one number per pair, oriented so that negative is better:
//
//	D = ln(with / without)
//
// # Process
//
// If the change does nothing, the coin does not affect the two values of a pair. Given |D| and all earlier pairs, the
// sign of D is then a fair coin, and a bet on it wins nothing in the long run:
//
//	m_i = |D_i - theta|, r_i = min(1, m_i / Q75(m_1..m_i)), s_i = sign(theta - D_i);
//	E_n(theta) = mean over c in {0.25, 0.5, 0.95} of prod over i <= n of (1 + c r_i s_i)
//
// E_n is a martingale that starts at 1 and is never negative. The probability that it ever reaches 1/alpha is
// therefore at most alpha (Ville's inequality). This is true at every check, with any autocorrelation, daily curve,
// heavy tail or cron job. The process is Wilcoxon's signed rank as a bet (Vovk and Wang, arXiv 2208.08925; bets as in
// Liu and Zhong, arXiv 2602.23257).
//
// # Verdicts
//
// The first rule that is true ends the trial:
//
//	better        E(0) >= candidates/0.01, after at least 8 pairs;
//	worse         the same process with its sign turned >= 20;
//	noDifference  the turned process at a gain of 5 % >= 20, so that any gain is smaller;
//	              and the ratio is less than 5 % on the bad side, where "worse" is near;
//	noisy         60 pairs, and none of these
//
// The interval contains every theta for which the mean of both processes is below 20. Over all checks together, it
// misses a constant effect in at most 5 % of the trials.
//
// The guarantee is lost if only blocks of one arm are left out. A caller that voids a pair (a restart, a stolen CPU)
// must judge both blocks by the same rule.
package evidence
