// Package isolate decides how many whole cores of a machine belong to offline work: pure
// functions of what the CPUs and the groups did, of what an administrator chose, and of the
// time as a value.
//
// # The idea
//
// Two threads of one core share its units and its caches, so that offline work beside an online
// thread slows that thread down, whatever the scheduler does. So a core is one side's as a
// whole, and a boundary between the sides follows the load: Movable says which cores it may
// cross. The CPU sets of groups carry it out; this package knows of numbers only.
//
// # The law
//
// With N movable cores of t threads each, of which the online side uses U CPUs, and the
// administrator's T (cpuSuppressThresholdPercent) and m (cpuSuppressMinPercent),
//
//	B      = max(1/2, N/10)
//	need   = ceil(1.2 U/t + B)
//	low    = min(N-1, max(1, ceil(m N/100)))
//	target = max(low, min(N - need, floor(T N/100 - U/t)))
//
// B is the buffer of cores that stands idle for online work: what wakes up finds a core before
// any agent could react. The fifth above U is the room in which a queue does not build up. low is
// what offline work is guaranteed, as work without any CPU holds locks and memory for ever;
// above it, it never has what online work needs. T bounds both together, as in Koordinator,
// whose key it is. U is counted as if it filled the threads of a core: two threads of work that
// lie on two cores leave no core free, and move together when the boundary does.
//
// U is the highest mean of a second in the last 20 s, of the online side's movable CPUs. A second
// is as fast as a mean of /proc/stat is exact to a few percent, at 10 ms a tick; the highest of
// 20 s is what keeps the boundary from following every wave: online work that comes back within
// 20 s finds its cores. Interrupts count as busy, as they take time from online work. Steal does
// not: it is another machine's.
//
// # Moves
//
// What online work needs it gets at once. Offline work grows by max(1, N/10) cores, never within
// 5 s of the move before, as each move wakes the domains of the scheduler up, less than such a
// step not within 30 s, so that noise moves nothing back and forth, and never
// while the hypervisor takes more than 5 % of the online side's time: idle time that is not
// there cannot be given away.
//
// A second is long for a request. While offline work has more than low, the caller looks every
// 50 ms, or as rarely as keeps looks below half a percent of a CPU (at most 500 ms, as /proc/stat
// takes milliseconds on a large machine). A look that finds less than B/2 cores of idle time on
// the online side is a surge: offline work gives back max(B, half of what it has above low), and
// at the next look again. After a surge nothing grows for 20 s, since means of a second do not
// show what it was.
//
// Where looks fail nothing grows, and once the last mean is older than the window offline work is
// back at low.
//
// # Cores
//
// Offline work starts with low cores, also when the agent starts again, and keeps those that it
// has. It grows within the L3 domains in which it is, then into whole free ones, and gives back in
// reverse, so that few caches are shared between the sides and few pages move. Below two
// movable cores there is no boundary, nor without offline work.
//
// # Precedence
//
// On a CPU that both sides want, what yields runs when nothing beside it does: groupIdentity -1
// or schedIdle 1 of cpuQOS. Where the kernel has Group Identity (cpu.bvt_warp_ns) that says it,
// and 1 and 2 as well. Elsewhere it is cpu.idle of the pod's group, for offline work only, and 1
// and 2 have no form: a group cannot go before all others without taking time from them.
//
// # The pull reserve
//
// cpu.idle has online work preempt offline work at once, and still two online threads may wait
// for each other beside a CPU that has offline work only. A CPU looks for threads to pull when it
// would go idle, and only then: pick_next_task_fair calls sched_balance_newidle (newidle_balance
// in 6.1) once no fair task is left to pick, and threads of an idle group are fair tasks
// (kernel/sched/fair.c of 6.1.119, 6.12.117 and 6.18.44: pick_next_task_fair and balance_fair). A
// CPU that is left with such threads alone (sched_idle_rq) is balanced at the next tick at the
// earliest: dequeue_task_fair, in 6.12 and 6.18 dequeue_entities, sets next_balance to now, and
// the tick reads it (trigger_load_balance in 6.1, then sched_balance_trigger). Nor does a thread that wakes
// find such a CPU wherever it is: past the CPUs where it ran and is woken, select_idle_cpu searches
// none at all while the L3 is busy by 85 % or more, and offline threads count as busy
// (update_idle_cpu_scan, SIS_UTIL).
//
// Reserve keeps some CPUs of each L3 without offline threads: they do go idle, and pull. They are
// whole cores. An offline thread on the other thread of such a core would slow down what was pulled
// there, as anywhere; and at a tick should_we_balance of 6.12 and 6.18 has a core that is idle as a
// whole pull first. A core scheduling cookie would forbid that, but a new thread of offline work has none for
// seconds, and the lists would move with it. Where online work has cores of its own no reserve is
// needed: its side of the boundary has no offline thread at all.
//
// # Kernel files
//
//	/proc/stat                         user, nice, system, irq and softirq are busy; idle and
//	                                   iowait are idle; steal apart (show_stat in fs/proc/stat.c)
//	cpuset.cpus, cpuset.cpus.effective the effective set of the root bounds what may move
//	/sys/devices/system/cpu            which threads a core has (package topology)
//
// The caller reads them, gives them to Look and Decide, and has the decision written: offline
// groups are narrowed before online ones widen, and the other way round.
package isolate
