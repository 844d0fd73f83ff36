// Package isolate decides how many whole cores of a machine belong to offline work. Its functions are pure: their input
// is what the CPUs and the groups did, what an administrator chose, and the time as a value.
//
// # The idea
//
// Two threads of one core share its units and its caches. Offline work beside an online thread therefore slows that
// thread down, with any scheduler. So each core belongs as a whole to one side, and a boundary between the sides
// follows the load. Movable returns the cores that the boundary may cross. The CPU sets of groups implement the
// boundary; this package only computes numbers.
//
// # The law
//
// N is the number of movable cores of t threads each, and the online side uses U CPUs of them. The administrator
// chooses T (cpuSuppressThresholdPercent) and m (cpuSuppressMinPercent):
//
//	B      = max(1/2, N/10)
//	need   = ceil(1.2 U/t + B)
//	low    = min(N-1, max(1, ceil(m N/100)))
//	target = max(low, min(N - need, floor(T N/100 - U/t)))
//
// B is the buffer of cores that is idle for online work: a thread that wakes up finds a core before any agent could
// react. The additional fifth of U is the room in which no queue builds up. Offline work is guaranteed low cores, since
// work without any CPU holds locks and memory for ever. Above low, offline work never has cores that online work needs.
// T bounds both sides together, as in Koordinator, which defined the key. U is counted as if it filled the threads of a
// core: two threads on two cores leave no core free, and move together when the boundary moves.
//
// Cores may differ: a sibling is offline, or efficiency cores have one thread. Then t is the mean, P/N for P CPUs, and
// only B is converted by it. The law counts the CPUs of the very cores that each side would have, in the order in which
// offline work gets cores. need is the fewest of the last cores that have 1.2 U + B t CPUs. In place of the floor is the
// most of the first cores that have T P/100 - U. If even all cores are too few, need counts what is missing in cores of
// t CPUs. Where all cores have t threads, these are the formulas above. With the least number of threads of any core in
// place of the mean, a single offline sibling would halve a machine.
//
// U is the highest one-second mean in the last 20 s, of the online side's movable CPUs. At 10 ms a tick, one second is
// the shortest time in which a mean of /proc/stat is exact to a few percent. The highest mean of 20 s keeps the
// boundary from following every wave: online work that comes back within 20 s finds its cores. Interrupts count as
// busy, as they use time of online work. Steal does not count: another machine uses it.
//
// # Moves
//
// Online work gets the cores that it needs at once. Offline work grows by max(1, N/10) cores, never within 5 s of the
// previous move, since each move disturbs the domains of the scheduler. A smaller step waits 30 s, so that noise moves
// nothing back and forth. Where a move makes threads forget which CPUs they chose, and nobody can restore that, growth
// waits a minute: only moves that online work needs come sooner. A quota moves no thread. Nothing grows while the hypervisor steals more than 5 % of the online side's time: its idle
// time is not really available.
//
// A second is long for a request. While offline work has more than low, the caller samples every 50 ms, or less often
// so that samples cost less than half a percent of a CPU. The longest interval is 500 ms, as reading /proc/stat takes
// milliseconds on a large machine. A sample with less than B/2 cores of idle time on the online side is a surge:
// offline work gives back max(B, half of its cores above low), and again at the next sample. After a surge nothing
// grows for 20 s, since one-second means do not show the surge.
//
// Nothing grows while samples fail. Once the last mean is older than the window, offline work is back at low.
//
// # Cores
//
// Offline work starts with low cores, also when the agent restarts, and retains the cores that it has. It grows within
// its present L3 domains, then into whole free domains, and gives cores back in reverse order. Few caches are then
// shared between the sides, and few pages move. There is no boundary without offline work, or with fewer than two
// movable cores.
//
// # Precedence
//
// On a CPU that both sides use, a workload that yields runs when no other workload does: groupIdentity -1 or schedIdle
// 1 of cpuQOS. A kernel with Group Identity (cpu.bvt_warp_ns) expresses that, and 1 and 2 as well. On other kernels
// Berth uses cpu.idle of the pod's group, for offline work only. There 1 and 2 have no form: a group cannot precede all
// others without using their time.
//
// # The pull reserve
//
// With cpu.idle online work preempts offline work at once. Still, two online threads may wait for each other beside a
// CPU that has offline work only. A CPU searches for threads to pull only when it is about to go idle:
// pick_next_task_fair calls sched_balance_newidle (newidle_balance in 6.1) once no fair task is left to pick. Threads
// of an idle group are fair tasks (kernel/sched/fair.c of 6.1.119, 6.12.117 and 6.18.44: pick_next_task_fair and
// balance_fair). A CPU that has only idle-group threads left (sched_idle_rq) is balanced at the next tick at the
// earliest. dequeue_task_fair, in 6.12 and 6.18 dequeue_entities, sets next_balance to now, and the tick reads it
// (trigger_load_balance in 6.1, then sched_balance_trigger). A thread that wakes does not find such a CPU everywhere
// either. Apart from the CPUs where it ran and is woken, select_idle_cpu searches none while the L3 is busy by 85 % or
// more. Offline threads count as busy (update_idle_cpu_scan, SIS_UTIL).
//
// Reserve leaves some CPUs of each L3 without offline threads: these CPUs do go idle, and pull. They are whole cores.
// An offline thread on the SMT sibling would slow down the pulled thread, as anywhere. Also, at a tick
// should_we_balance of 6.12 and 6.18 lets a core that is idle as a whole pull first. A core scheduling cookie would
// forbid an offline sibling, but a new thread of offline work has no cookie for seconds, and the lists would move with
// it. Where online work has cores of its own no reserve is needed: its side of the boundary has no offline thread at
// all.
//
// # Kernel files
//
//	/proc/stat                         user, nice, system, irq and softirq are busy; idle and
//	                                   iowait are idle; steal apart (show_stat in fs/proc/stat.c)
//	cpuset.cpus, cpuset.cpus.effective the effective set of the root bounds what may move
//	/sys/devices/system/cpu            which threads a core has (package topology)
//
// The caller reads these files, passes the values to Look and Decide, and has the decision written: offline groups are
// narrowed before online groups widen, and the other way round.
package isolate
