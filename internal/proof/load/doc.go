// Package load generates work for a limited group and measures it. It has a request server with an exact CPU time per
// request, processes that burn without end, an open-loop generator, and the statistics of its samples.
//
// # Open loop
//
// The arrival times are a pure function of a seed ([Pattern]), made before the run. The generator sends each request at
// its intended time, whatever happened to earlier requests. Latency counts from the intended time, not from the moment
// a connection was free. A stalled server therefore cannot make the generator wait and hide the stall, and two arms
// with one seed get the same arrivals.
//
// # Exact work
//
// The server works on a request on a locked thread until CLOCK_THREAD_CPUTIME_ID has advanced by the requested amount.
// Time spent throttled or preempted does not count, so each arm does the same work and only its waiting differs. The
// server sets GOMAXPROCS to the machine's online CPUs: Go's runtime would otherwise use the group's quota, and that
// would shape the arms.
//
// # Statistics
//
// Quantiles are exact order statistics of the raw samples, by nearest rank. A quantile is supported only when at least
// ten samples lie above it ([Supported]): p99 needs 1,000 samples, p99.9 needs 10,000. An unsupported quantile prints
// n/a. Ratios between two arms carry an interval that keeps the pairing: a percentile bootstrap for quantiles
// ([PairedRatio]), Student's t of the logarithm for shares ([PairedShares]).
package load
