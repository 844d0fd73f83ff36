// Package bench measures what Berth does to real workloads on this machine, side by side with alternatives.
//
// # Arms
//
// An arm is one way to run the same limited request server: without a limit, with the limit only, with the limit and
// the kernel's own burst at its maximum, with an emulation of Koordinator's quota loop, or with Berth's agent. A second
// arm without a limit shows how much the machine itself varies. Each arm gets a fresh group and a fresh server; all
// arms of a repetition get the same arrivals. The arms of a repetition run one after the other in an order that rotates
// between repetitions, so that slow drift of the machine meets all arms. The reports give only ratios between arms of
// one run.
//
// Every repetition counts. A ratio is judged by its median over stretches of paired arrivals, each as long as its
// quantile needs: a temporary disturbance of one arm moves few of them. The same median of the two unlimited arms is
// the noise of the machine. If the noise is more than the goals allow, an interval that contains a goal gives no
// verdict.
//
// # The peer
//
// Koordinator's loop is emulated by its published law (emulation): once a second, if the last second saw throttling,
// it multiplies the quota by 1.2, up to 300 % of the base, and never lowers it. Koordinator's node guard and limiter
// are left out (the guard would only slow the loop down here, the limiter is off by default).
//
// # Neighbours
//
// bench interference runs a server beside offline work that takes all CPUs, and has an arm for each way to keep it off.
// bench pin runs a server beside an equal, on the same CPUs and with CPUs of its own from the agent.
//
// # Cores and scheduling
//
// bench place works on paper. It times single decisions of package alloc, and plays traces of arriving and departing
// pods against package alloc and the pickers of package rival, all with the same arrivals. bench schedule needs etcd
// and an API server: it starts benchschedule, a program of the module test/cluster, with its options ([RunSchedule])
// and passes on its report.
//
// # Locality
//
// bench locality has a process fill memory on the wrong NUMA node, and times the mover and a bare loop with the same
// calls in turns on the same pages. A request is some writes of that process to random pages, at set times. With Redis,
// the pages of one server are spread again for each run.
//
// # Processes
//
// Servers, abusers and the agent are this program under hidden or public subcommands (/proc/self/exe), in groups of
// package scratch. They end when their standard input closes, so that none outlives a killed benchmark.
//
// A host profile outlives one: [Tuning] applies it with a deadline, and a later run undoes what a killed one left.
package bench
