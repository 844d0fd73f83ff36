// Package bench measures what Berth does to real workloads on this machine,
// side by side with what it is compared to.
//
// # Arms
//
// An arm is one way to run the same limited request server: without a limit,
// with the limit only, with the limit and the kernel's own burst at its
// maximum, with an emulation of Koordinator's quota loop, with Berth's agent,
// and once more without a limit to see how much the machine itself varies.
// Each arm gets a fresh group and a fresh server; all arms of a repetition get
// the same arrivals; the arms of a repetition run one after the other and
// their order rotates from repetition to repetition, so that slow drift of the
// machine meets all of them. It reports only ratios between arms of one run.
//
// Every repetition counts. A ratio is judged by its median over stretches of paired
// arrivals, each as long as its quantile needs: what disturbs one arm for a while moves
// few of them. The same median of the two unlimited arms is the noise of the machine. Where
// that is more than the goals allow, an interval that holds a goal gives no verdict.
//
// # The peer
//
// Koordinator's loop is emulated by its published law ([Emulation]): once a
// second, if the last second saw throttling, the quota times 1.2, at most
// 300 % of the base, and never back. Its node guard and limiter are left out
// (the first would only slow it down here, the second is off by default).
//
// # Cores and scheduling
//
// bench place works on paper: it times single decisions of package alloc, and
// plays traces of pods that come and go against it and against the pickers of
// package rival, which all meet the same arrivals. bench schedule needs etcd
// and an API server: it starts benchschedule, a program of the module
// test/cluster, with its options ([RunSchedule]) and passes on what that reports.
//
// # Locality
//
// bench locality has a process fill memory on the wrong NUMA node, and times the mover and a
// bare loop with the same calls in turns on the same pages. A request is some writes to pages
// at random, at set times, by that process itself. With Redis the pages of one server are
// spread anew for each run.
//
// # Processes
//
// Servers, abusers and the agent are this very program under hidden or public
// subcommands (/proc/self/exe), in groups that package scratch made. They end
// when their standard input does, so that none outlives a killed benchmark.
package bench
