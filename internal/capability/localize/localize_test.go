package localize

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	total     = "\nTotal: 1 container(s) completed, 0 failed, 0 skipped; cur local memory ratio 100, rest remote memory pages 0"
	completed = "u Normal MemoryLocalityCompleted: Container redis completed: migrated memory from remote numa: 1 to local numa: 0" + total
)

// A container opts in by annotation. One pass begins after its CPUs have been the same for ten seconds, and no second
// pass follows.
func TestByAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pass(10)
	if len(w.mover.orders) > 0 {
		t.Error("ordered before the CPUs settled")
	}
	w.pass(1)
	o, ordered := w.mover.orders[key("redis")]
	if !ordered || o.Group != redis || o.Local != list(t, "0") || len(o.Nodes) != 2 || o.Rate != 256<<20 || o.DryRun {
		t.Fatalf("ordered %+v", w.mover.orders)
	}
	w.expect("", w.at("InProgress", "", 0, 0))
	w.mover.set(mover.Report{Key: o.Key, Phase: mover.Paused, Reason: "memory pressure", Pauses: 1})
	w.pass(5)
	w.expect("", "")
	w.memory(redis, 100, 0)
	w.done(mover.Report{Key: o.Key, Outcome: locality.Completed})
	w.pass(1)
	w.expect(completed, w.at("Completed", "Completed", 100, 0))
	delete(w.mover.orders, key("redis"))
	w.memory(redis, 10, 90)
	w.pass(7 * 24 * 3600 / 100)
	w.expect("", "")
	if len(w.mover.orders)+len(w.mover.reports) > 0 {
		t.Errorf("a second pass: %+v, reports %+v", w.mover.orders, w.mover.reports)
	}
	// A different policy text starts another pass.
	w.with(w.container("redis", true, `{"policy":"BestEffort"}`))
	w.pass(1)
	if len(w.mover.orders) != 1 {
		t.Error("no pass for another policy")
	}
}

// The kernel counts moved pages some seconds late. The pod gets its event after that, and within a minute when the
// count never arrives.
func TestCountComesLate(t *testing.T) {
	t.Parallel()
	moved := []mover.Moved{{Pair: locality.Pair{From: 1, To: 0}, Base: 57 << 20}}
	w := newWorld(t)
	w.pass(11)
	w.took()
	w.memory(redis, 98, 2)
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed, Moved: moved})
	w.pass(2)
	w.memory(redis, 100, 0)
	w.pass(2)
	w.expect("", "")
	w.pass(1)
	w.expect(completed, w.at("Completed", "Completed", 100, 0))

	// Another pass begins before the memory of the first is counted. The pod gets one event for both.
	w.with(w.container("redis", true, `{"policy":"BestEffort"}`))
	w.memory(redis, 10, 90)
	w.pass(1)
	w.took()
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed, Moved: moved})
	w.pass(1)
	w.with(w.container("redis", true, `{"policy":"bestEffort","migrateIntervalMinutes":10}`))
	w.pass(10)
	w.expect("", "")
	w.memory(redis, 100, 0)
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed, Moved: moved})
	w.pass(5)
	w.expect(completed, w.at("Completed", "Completed", 100, 0))

	// The container ends before the count: nothing waits for it.
	w.with(w.container("redis", true, `{"policy":"bestEffort"}`))
	w.memory(redis, 10, 90)
	w.pass(1)
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed, Moved: moved})
	w.pass(1)
	w.took()
	w.with()
	w.pass(120)
	w.expect("", "")
}

// Processes that exit do not fail a pass. The event has the kernel's error texts.
func TestExitedProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pass(11)
	w.memory(redis, 100, 0)
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed, Exited: []mover.Exit{{PID: 111111, Err: errors.Join(errors.New("process ended"), syscall.EINVAL)}}})
	w.pass(1)
	events, _ := w.took()
	const want = "u Normal MemoryLocalityCompleted: Container redis completed: failed to migrate the following processes: failed pid: 111111, error: No such process,from remote numa: 1 to local numa: 0" + total
	if events != want {
		t.Errorf("%s\nwant\n%s", events, want)
	}
}

// A policy by class starts no pass until the ratio is below the target.
func TestByClass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.with(byClass(w.container("redis", true, ""), `{"policy":"bestEffort","targetLocalityRatio":40}`))
	w.pass(60)
	w.expect("", "")
	w.memory(redis, 39, 61)
	w.pass(11)
	w.expect("", w.at("InProgress", "", 0, 0))
	w.memory(redis, 41, 59)
	w.pass(2) // at its target: the pass ends
	events, annotations := w.took()
	if !strings.Contains(events, "cur local memory ratio 41, rest remote memory pages 15104") || annotations != w.at("Completed", "Completed", 41, 59<<20/os.Getpagesize()) {
		t.Errorf("%s\n%s", events, annotations)
	}
	if len(w.mover.canceled) != 1 {
		t.Errorf("canceled %v", w.mover.canceled)
	}
}

// With an interval, passes begin only while the ratio is below the target, and at most once per interval. A result is
// reported again only when the outcome or the ratio changes.
func TestInterval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.with(w.container("redis", true, `{"policy":"bestEffort","migrateIntervalMinutes":10}`))
	end := func(node0 int) {
		w.memory(redis, node0, 100-node0)
		w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed})
		delete(w.mover.orders, key("redis"))
		w.pass(1)
	}
	w.pass(11)
	end(90)
	if events, _ := w.took(); !strings.Contains(events, "ratio 90") {
		t.Errorf("first: %s", events)
	}
	w.pass(10*60 - 2)
	if len(w.mover.orders) > 0 {
		t.Error("ordered before the interval was over")
	}
	for ratio, told := range map[int]bool{95: false} {
		w.pass(12)
		if len(w.mover.orders) != 1 {
			t.Fatal("not ordered after the interval")
		}
		end(ratio)
		if events, annotations := w.took(); (events != "") != told || !strings.Contains(annotations, `"completedTimeLocalityRatio":95`) {
			t.Errorf("%s\n%s", events, annotations)
		}
	}
	w.pass(10*60 + 12)
	end(79)
	if events, _ := w.took(); !strings.Contains(events, "ratio 79") {
		t.Errorf("eleven points less: %s", events)
	}
	w.memory(redis, 100, 0)
	w.pass(3600)
	if len(w.mover.orders) > 0 {
		t.Error("ordered at the target")
	}
	w.expect("", "")
}

// Where no node is better than another, the agent reports that for an annotation. For a class it reports it only to
// pinned pods.
func TestNoTarget(t *testing.T) {
	t.Parallel()
	const skipped = "u Normal MemoryLocalitySkipped: no target numa"
	for name, test := range map[string]struct {
		cpus          string
		bound, class  bool
		nodes         string
		event, status bool
	}{
		"shared pool, annotation": {"0-1", false, false, "0-1", true, true},
		"shared pool, class":      {"0-1", false, true, "0-1", false, false},
		"all nodes, annotation":   {"0-3", true, false, "0-1", true, true},
		"all nodes, class":        {"0-3", true, true, "0-1", true, true},
		"one node, class":         {"0-1", true, true, "0", true, true},
		"one node, annotation":    {"0-1", true, false, "0", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.container("redis", test.bound, `{"policy":"bestEffort"}`)
			if test.class {
				c = byClass(w.container("redis", test.bound, ""), `{"policy":"bestEffort"}`)
			}
			w.with(c)
			w.cpus(redis, test.cpus)
			if test.nodes == "0" {
				w.write("sys/devices/system/node/online", "0\n")
				w.write("sys/devices/system/node/node0/cpulist", "0-3\n")
				w.Remove("sys/devices/system/node/node1")
			}
			w.pass(11)
			event, status := "", ""
			if test.event {
				event, status = skipped, w.at("Closed", "Skipped", 100, 0)
			}
			w.expect(event, status)
			w.pass(3600)
			w.expect("", "")
			if len(w.mover.orders) > 0 {
				t.Errorf("ordered %+v", w.mover.orders)
			}
		})
	}
}

// An annotation is answered at once when the ratio is at its target.
func TestAtTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.memory(redis, 100, 0)
	w.pass(11)
	w.expect("u Normal MemoryLocalitySkipped: Container redis skipped: the local memory ratio is at its target: 100\n"+
		"Total: 0 container(s) completed, 0 failed, 1 skipped; cur local memory ratio 100, rest remote memory pages 0", w.at("Completed", "Skipped", 100, 0))
}

// A pod has one event for all its containers, after the last pass has ended.
func TestPodOfTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.group("pods/web")
	w.cpus("pods/web", "2-3")
	w.memory("pods/web", 50, 50)
	w.with(w.container("redis", true, `{"policy":"bestEffort"}`), w.container("web", true, `{"policy":"bestEffort"}`))
	w.pass(11)
	w.expect("", w.at("InProgress", "", 0, 0))
	w.memory(redis, 100, 0)
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed})
	w.pass(5)
	w.expect("", "")
	w.done(mover.Report{Key: key("web"), Outcome: locality.Failed, Err: mover.ErrNoRoom})
	w.pass(1)
	w.expect("u Warning MemoryLocalityFailed: Container redis completed: migrated memory from remote numa: 1 to local numa: 0\n"+
		"Container web failed: no room on the local nodes\n"+
		"Total: 1 container(s) completed, 1 failed, 0 skipped; cur local memory ratio 75, rest remote memory pages 12800", w.at("Completed", "Failed", 75, 12800))
}

// A pod's event waits until the CPUs of all its containers are stable, but not for a container whose CPUs never are.
func TestPodWaitsForAll(t *testing.T) {
	t.Parallel()
	for name, unsettled := range map[string]int{"settles": 20, "crashes again and again": 1000} {
		w := newWorld(t)
		w.group("pods/web")
		w.memory("pods/web", 100, 0)
		w.with(w.container("redis", true, `{"policy":"bestEffort"}`), w.container("web", true, `{"policy":"bestEffort"}`))
		event := 0
		for second := range 200 {
			w.cpus("pods/web", "0-1")
			if second < unsettled {
				w.cpus("pods/web", []string{"0", "1"}[second%2])
			}
			if second == 15 {
				w.memory(redis, 100, 0)
				w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed})
			}
			if w.pass(1); len(w.events) > 0 && event == 0 {
				event = second
			}
		}
		events, _ := w.took()
		both := strings.Contains(events, "Container web skipped")
		if strings.Count(events, "Total:") != 1 || both != (unsettled == 20) || event > 15+60 || event < unsettled && unsettled == 20 {
			t.Errorf("%s: at %d: %s", name, event, events)
		}
	}
}

// When one container has several passes while another still moves, the event has only its last result.
func TestOneResultForEachContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.group("pods/web")
	w.cpus("pods/web", "0-1")
	w.memory("pods/web", 50, 50)
	const often = `{"policy":"bestEffort","migrateIntervalMinutes":1}`
	w.with(w.container("redis", true, often), w.container("web", true, often))
	w.pass(11)
	for range 3 {
		w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed})
		w.pass(75)
	}
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed})
	w.done(mover.Report{Key: key("web"), Outcome: locality.Completed})
	w.pass(1)
	if events, _ := w.took(); strings.Count(events, "Container redis") != 1 || !strings.Contains(events, "Total: 2 container(s) completed") {
		t.Error(events)
	}
}

// Groups whose CPUs change all the time do not prevent other groups from being measured.
func TestEachGroupIsLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []observed.Workload
	for i := range 13 {
		name := fmt.Sprintf("g%02d", i)
		w.group("pods/" + name)
		w.cpus("pods/"+name, "0-1")
		w.memory("pods/"+name, 100, 0)
		all = append(all, w.container(name, true, `{"policy":"bestEffort"}`))
	}
	w.with(all...)
	for i := range 4 {
		for g := range 12 {
			w.cpus(fmt.Sprintf("pods/g%02d", g), []string{"0", "1"}[i%2])
		}
		w.pass(1)
	}
	if !w.s.groups["pods/g12"].measured {
		t.Error("the last group was never looked at")
	}
}

// A canceled pass that ends later does not end the next pass, and the bytes that it moved stay counted.
func TestCanceledPassEndsLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pass(11)
	moved := func() (n float64) {
		w.s.Measure(func(s capability.Sample) {
			if s.Metric == "memory_moved_bytes_total" {
				n += s.Value
			}
		})
		return n
	}
	old := mover.Report{Key: w.mover.orders[key("redis")].Key, Phase: mover.Moving, Moved: []mover.Moved{{Pair: locality.Pair{From: 1}, Base: 1 << 20}}}
	w.mover.set(old)
	w.pass(1)
	w.mover.slow = true
	w.with(w.container("redis", true, `{"policy":"BestEffort"}`))
	for range 3 {
		if w.pass(1); moved() != 1<<20 {
			t.Errorf("moved %v bytes", moved())
		}
	}
	old.Err, old.Outcome = mover.ErrCanceled, locality.Failed
	w.done(old)
	w.pass(1)
	if g := w.s.groups[redis]; g.pass == nil || g.pass.key == old.Key || moved() != 1<<20 || len(w.mover.reports) != 1 {
		t.Errorf("pass %+v, moved %v, reports %+v", g.pass, moved(), w.mover.reports)
	}
}

// A container that is started again after a while is a new container of the same pod. The pod's event is not repeated.
func TestContainerStartedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	again := func(id string) {
		c := w.container("redis", true, `{"policy":"bestEffort"}`)
		c.ID = id
		w.with(c)
		w.memory(redis, 43, 57)
		w.pass(11)
		w.memory(redis, 100, 0)
		w.done(mover.Report{Key: "ns/p/redis@" + id, Outcome: locality.Completed})
		w.pass(1)
	}
	again("one")
	if events, _ := w.took(); !strings.Contains(events, "MemoryLocalityCompleted") {
		t.Error(events)
	}
	w.with()
	w.pass(300)
	again("two")
	if events, annotations := w.took(); events != "" || !strings.Contains(annotations, `"phase":"Completed"`) {
		t.Errorf("%s\n%s", events, annotations)
	}
	w.with()
	w.pass(1)
	w.with(w.container("other", true, ""))
	w.node.Containers[0].PodUID = "v"
	w.pass(601)
	w.with()
	if w.pass(1); len(w.s.pods) > 0 {
		t.Errorf("a pod that is gone is kept: %+v", w.s.pods)
	}
}

// A service whose group is removed and created again is new, so that a single pass may run again. A container of a pod
// is identified by its ID instead.
func TestServiceStartsAnew(t *testing.T) {
	t.Parallel()
	for _, pod := range []string{"", "ns/p"} {
		w := newWorld(t)
		c := w.container("redis", true, `{"policy":"bestEffort"}`)
		c.Pod = pod
		w.with(c)
		w.pass(11)
		w.memory(redis, 100, 0)
		w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed})
		w.pass(1)
		w.cpus(redis, "x") // An unreadable file is opened again; files of a removed directory stay readable while open.
		w.pass(11)
		w.Remove("sys/fs/cgroup/" + redis)
		w.pass(11)
		w.group(redis)
		w.cpus(redis, "0-1")
		w.memory(redis, 43, 57)
		w.mover.orders = map[string]mover.Order{}
		w.pass(30)
		if _, again := w.mover.orders[key("redis")]; again != (pod == "") {
			t.Errorf("pod %q: a pass is ordered: %t", pod, again)
		}
	}
}

// Unreadable NUMA nodes are read again, and so are nodes whose memory comes online.
func TestNodesAreReadAgain(t *testing.T) {
	t.Parallel()
	const tier = "sys/devices/virtual/memory_tiering/memory_tier4/nodelist"
	w := newWorld(t)
	w.write(tier, "x\n")
	w.pass(20)
	if row := w.s.Outcome(time.Time{}).Rows[0]; row.State != statePending || !strings.Contains(row.Reason, "memory_tier4") {
		t.Errorf("%+v", row)
	}
	w.expect("", "")
	w.write(tier, "0-1\n")
	if w.pass(21); len(w.mover.orders) != 1 {
		t.Error("nodes that could not be read are not read again")
	}
	w = newWorld(t)
	w.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 0 kB\n")
	if w.pass(11); len(w.mover.orders) > 0 {
		t.Errorf("ordered %+v", w.mover.orders)
	}
	w.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 8388608 kB\n")
	if w.pass(11); len(w.mover.orders) != 1 {
		t.Error("memory that came online is not seen")
	}
}

// The workload is pending until the agent has read the topology of its host.
func TestNoTopology(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.s.Decide(&w.node)
	if row := w.s.Outcome(time.Time{}).Rows[0]; row.State != statePending || row.Reason != errNoTopology.Error() {
		t.Errorf("%+v", row)
	}
	if w.pass(22); len(w.mover.orders) != 1 {
		t.Error("no pass once it is known")
	}
}

// A foreign cpuset.mems may exclude local nodes. Pages on these nodes stay, and no pages are moved there.
func TestForeignMemsCutTheTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("sys/devices/system/node/online", "0-2\n")
	for node, cpus := range []string{"0", "1", "2-3"} {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", node)
		w.write(dir+"cpulist", cpus+"\n")
		w.write(dir+"distance", []string{"10 20 20\n", "20 10 20\n", "20 20 10\n"}[node])
		w.write(dir+"meminfo", fmt.Sprintf("Node %d MemTotal: 8388608 kB\n", node))
	}
	w.write("sys/fs/cgroup/"+redis+"/cpuset.mems.effective", "1-2\n")
	w.write("sys/fs/cgroup/"+redis+"/memory.numa_stat", "anon N0=1048576 N1=1048576 N2=1048576\n")
	w.pass(11)
	if o := w.mover.orders[key("redis")]; o.Local != list(t, "0-1") || o.Targets != list(t, "1") {
		t.Errorf("ordered %+v", o)
	}
}

// Without the rights to move pages, the event names the rights and the deployment that has them.
func TestRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pass(11)
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Failed, Err: fmt.Errorf("move pages of 7: %w", errors.Join(mover.ErrRights, syscall.EPERM))})
	w.pass(1)
	events, _ := w.took()
	for _, want := range []string{"MemoryLocalityFailed", "CAP_SYS_PTRACE", "deploy/hostpid"} {
		if !strings.Contains(events, want) {
			t.Errorf("%s does not name %s", events, want)
		}
	}
}

// The kernel also answers EACCES for a target outside cpuset.mems. No right solves that, so the event must not
// recommend one.
func TestMemsAreNoRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pass(11)
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Failed, Err: errors.Join(mover.ErrRights, mover.ErrMems, syscall.EACCES)})
	w.pass(1)
	events, _ := w.took()
	if !strings.Contains(events, "MemoryLocalityFailed") || strings.Contains(events, "deploy/hostpid") {
		t.Error(events)
	}
}

// A pass stops when its policy or its CPUs change, and with its group.
func TestStops(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(w *world)
		phase  string
		again  bool
	}{
		"policy none": {func(w *world) { w.with(w.container("redis", true, `{"policy":"none"}`)) }, "Closed", false},
		"interval": {func(w *world) {
			w.with(w.container("redis", true, `{"policy":"bestEffort","migrateIntervalMinutes":"none"}`))
		}, "Closed", false},
		"bad policy":   {func(w *world) { w.with(w.container("redis", true, `{"policy":"x"}`)) }, "Closed", false},
		"switched off": {func(w *world) { w.cfg.Locality.Enabled = new(false) }, "Closed", false},
		"ACK":          {func(w *world) { w.node.Koordlet = "kube-system/ack-koordlet-x" }, "", false},
		"Koordinator":  {func(w *world) { w.node.Koordlet = "koordinator-system/koordlet-x"; w.cpus(redis, "2-3") }, "", true},
		"other CPUs":   {func(w *world) { w.cpus(redis, "2-3") }, "", true},
		"no container": {func(w *world) { w.with() }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.pass(11)
			delete(w.mover.orders, key("redis"))
			w.took()
			test.change(w)
			w.pass(2)
			if len(w.mover.canceled) != 1 {
				t.Errorf("canceled %v", w.mover.canceled)
			}
			_, annotations := w.took()
			if want := ""; test.phase == "" && annotations != want || test.phase != "" && annotations != w.at(test.phase, "", 0, 0) {
				t.Errorf("annotations %q", annotations)
			}
			w.pass(11)
			if o, again := w.mover.orders[key("redis")]; again != test.again || again && o.Local != list(t, "1") {
				t.Errorf("ordered %+v", w.mover.orders)
			}
		})
	}
}

// The next agent does not repeat a pass that ran once, and continues an unfinished pass.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remember := func() capability.Sections {
		text, err := json.Marshal(w.s.State())
		if err != nil {
			t.Fatal(err)
		}
		var saved capability.Sections
		if saved, err = capability.Split(text, &struct{}{}); err != nil {
			t.Fatal(err)
		}
		return saved
	}
	w.pass(11)
	before := w.changes
	w.took()
	w.mover.reports, w.mover.orders = nil, map[string]mover.Order{}
	w.restart(remember()) // while pages move
	w.pass(11)
	if len(w.mover.orders) != 1 {
		t.Fatal("the next agent does not go on")
	}
	w.memory(redis, 100, 0)
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed})
	w.pass(1)
	w.expect(completed, w.at("Completed", "Completed", 100, 0))
	if w.changes <= before {
		t.Error("nothing has to be remembered")
	}
	saved := remember()
	w.mover.orders = map[string]mover.Order{}
	w.restart(saved)
	all := w.node.Containers
	w.with() // before the runtime reports
	w.pass(30)
	saved = remember()
	w.restart(saved)
	w.with(all...)
	w.memory(redis, 43, 57)
	w.pass(30)
	w.expect("", "")
	if len(w.mover.orders) > 0 {
		t.Error("once is not once")
	}
	c := w.container("redis", true, `{"policy":"bestEffort"}`)
	c.ID = "id-anew"
	w.with(c)
	w.pass(11)
	if len(w.mover.orders) != 1 {
		t.Error("no pass for a container that was restarted")
	}
}

// An invalid value is reported once and switches the policy off. An unknown field changes nothing.
func TestInvalid(t *testing.T) {
	t.Parallel()
	const at = "u Warning InvalidPolicy: field metadata.annotations[koordinator.sh/memoryLocality]"
	for text, test := range map[string]struct {
		event  string
		orders int
	}{
		`{"policy":"fast"}`: {at + `.policy: value "fast": allowed: one of bestEffort, none`, 0},
		`{"policy":"bestEffort","migrateIntervalMinutes":-1}`: {at + `.migrateIntervalMinutes: value -1: allowed: 0 to 10080, or "none"`, 0},
		`{"policy":"bestEffort","targetLocalityRatio":101}`:   {at + `.targetLocalityRatio: value 101: allowed: 0 to 100`, 0},
		`{"policy":"bestEffort","newer":1}`:                   {at + `.newer: value 1: allowed: only the fields migrateIntervalMinutes, policy, targetLocalityRatio`, 1},
	} {
		w := newWorld(t)
		w.with(w.container("redis", true, text), w.container("redis", true, text))
		w.pass(5)
		w.with(w.container("redis", true, text))
		w.pass(10)
		if events, _ := w.took(); events != test.event || len(w.mover.orders) != test.orders {
			t.Errorf("%s: %d orders, %s, want %s", text, len(w.mover.orders), events, test.event)
		}
	}
}

// The agent reports what the host lacks, but not a group that is gone.
func TestFaults(t *testing.T) {
	t.Parallel()
	const prefix = "u Warning MemoryLocalityFailed: Container redis failed: "
	remove := func(name string) func(w *world) {
		return func(w *world) {
			w.Remove("sys/fs/cgroup/" + name)
		}
	}
	for name, test := range map[string]struct {
		change func(w *world)
		event  string
	}{
		"no memory controller": {func(w *world) {
			w.write("sys/fs/cgroup/"+redis+"/cgroup.controllers", "cpuset cpu\n")
			remove(redis + "/memory.numa_stat")(w)
		}, prefix},
		"foreign mems": {
			func(w *world) { w.write("sys/fs/cgroup/"+redis+"/cpuset.mems.effective", "1\n") },
			prefix + "cpuset.mems of the group has no local numa: pods/redis has numa: 1, local numa: 0",
		},
		"the group is gone": {remove(redis), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.change(w)
			w.pass(30)
			events, _ := w.took()
			if !strings.HasPrefix(events, test.event) || (events == "") != (test.event == "") || strings.Count(events, "MemoryLocality") > 1 {
				t.Errorf("events %s", events)
			}
			if len(w.mover.orders) > 0 {
				t.Errorf("ordered %+v", w.mover.orders)
			}
		})
	}
}

// A pass waits while Berth is about to give the group its memory nodes.
func TestPassWaitsForMemoryNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const mems = "sys/fs/cgroup/" + redis + "/cpuset.mems.effective"
	w.write(mems, "1\n")
	w.memory(redis, 100, 1000)
	for range 30 {
		w.pass(1)
		w.asks("0") // at each decision
	}
	if events, _ := w.took(); events != "" || len(w.mover.orders) > 0 {
		t.Errorf("events %s, orders %+v", events, w.mover.orders)
	}
	w.write(mems, "0-1\n")
	w.pass(30)
	if len(w.mover.orders) != 1 {
		t.Errorf("ordered %+v", w.mover.orders)
	}
}

// A kernel without NUMA has no target, and a mover that finds nothing to move reports it.
func TestNothingToMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Remove("sys/fs/cgroup/" + redis + "/memory.numa_stat")
	w.pass(1)
	w.expect("u Normal MemoryLocalitySkipped: no target numa", w.at("Closed", "Skipped", 100, 0))
	w = newWorld(t)
	w.pass(11)
	w.done(mover.Report{Key: key("redis"), Outcome: locality.Skipped})
	w.pass(1)
	if events, _ := w.took(); !strings.HasPrefix(events, "u Normal MemoryLocalitySkipped: Container redis skipped: no process has pages elsewhere") {
		t.Error(events)
	}
}

// keeps reports whether place leaves the memory nodes of redis wide instead of changing them to these.
func (w *world) keeps(to string) bool {
	pages, found := w.node.Pages[redis]
	return found && pages.Stay(list(w.t, to))
}

// asks acts as place, which desires these memory nodes for redis.
func (w *world) asks(to string) {
	w.node.Wide = nil
	if w.keeps(to) {
		w.node.Wide = map[string]cpuset.Set{redis: list(w.t, to)}
	}
}

// A group keeps wide memory nodes while more than 64 MiB of its memory is elsewhere, or while a pass moves its pages.
func TestKeepsMems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keeps := w.keeps
	w.pass(1)
	if _, found := w.node.Pages["pods/other"]; found {
		t.Error("a group that did not opt in is kept wide")
	}
	w.memory(redis, 1000, 64)
	w.pass(1)
	for _, step := range []struct {
		name         string
		node0, node1 int
		seconds      int
		done         bool
		want         bool
	}{
		{"64 MiB elsewhere", 1000, 64, 1, false, false},
		{"65 MiB elsewhere", 1000, 65, 1, false, true},
		{"under way, 10 MiB elsewhere", 1000, 10, 9, false, true},
		{"ended well", 1000, 10, 1, true, false},
	} {
		w.memory(redis, step.node0, step.node1)
		if step.done {
			w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed})
		}
		w.pass(step.seconds)
		if got := keeps("0"); got != step.want {
			t.Errorf("%s: keeps %v", step.name, got)
		}
	}
	if !keeps("1") {
		t.Error("a jump to node 1 is not kept")
	}
	w.with()
	w.pass(1)
	if keeps("1") {
		t.Error("kept although nothing is asked for")
	}
}

// A completed or skipped pass permits narrowing, whatever it left elsewhere, and so does a group that cannot be
// measured. A pass that failed or stopped at its target does not.
func TestKeepsMemsUntilAPassEndedWell(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(w *world)
		want bool
	}{
		"completed": {func(w *world) { w.done(mover.Report{Key: key("redis"), Outcome: locality.Completed}) }, false},
		"skipped":   {func(w *world) { w.done(mover.Report{Key: key("redis"), Outcome: locality.Skipped}) }, false},
		"failed": {func(w *world) {
			w.done(mover.Report{Key: key("redis"), Outcome: locality.Failed, Err: mover.ErrNoRoom})
		}, true},
		"at target":          {func(w *world) { w.memory(redis, 500, 500) }, true},
		"cannot be measured": {func(w *world) { w.write("sys/fs/cgroup/"+redis+"/memory.numa_stat", "anon X\n") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.with(w.container("redis", true, `{"policy":"bestEffort","targetLocalityRatio":50}`))
			w.memory(redis, 100, 900)
			w.pass(11)
			if !w.keeps("0") {
				t.Fatal("narrowed while pages move")
			}
			c.end(w)
			w.pass(3)
			if got := w.keeps("0"); got != c.want {
				t.Errorf("keeps %v", got)
			}
			if c.want == false && name != "cannot be measured" && !w.keeps("1") {
				t.Error("a jump to another node is not kept")
			}
		})
	}
}

// Memory that containers bound to a node may still allocate does not count as free room.
func TestUnused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("sys/devices/system/node/online", "0-2\n") // the last node has no memory
	w.write("sys/devices/system/node/node2/cpulist", "\n")
	w.write("sys/devices/system/node/node2/distance", "30 30 10\n")
	w.write("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 0 kB\n")
	for name, mems := range map[string]string{"a": "0", "b": "1", "c": "0-1"} {
		w.group("pods/" + name)
		w.write("sys/fs/cgroup/pods/"+name+"/cpuset.mems.effective", mems+"\n")
		w.write("sys/fs/cgroup/pods/"+name+"/memory.current", "100\n")
		w.write("sys/fs/cgroup/pods/"+name+"/memory.max", "1000\n")
		w.node.Containers = append(w.node.Containers, w.container(name, true, ""))
	}
	w.pass(11)
	if diff := cmp.Diff(observed.Bytes{900, 900}, w.mover.orders[key("redis")].Unused); diff != "" {
		t.Error(diff)
	}
}

func TestTiers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0\n")
	w.write("sys/devices/virtual/memory_tiering/memory_tier22/nodelist", "1\n")
	w.pass(11)
	if len(w.mover.orders) > 0 || w.s.host.nodes[0].Tier != 4 || w.s.host.nodes[1].Tier != 22 {
		t.Errorf("nodes %+v, ordered %+v", w.s.host.nodes, w.mover.orders)
	}
}

// Users see these rows, node lines, metrics and texts of explain.
func TestReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("proc/sys/kernel/numa_balancing", "1\n")
	w.pass(11)
	w.mover.set(mover.Report{
		Key: key("redis"), Phase: mover.Paused, Reason: "memory pressure", Moved: []mover.Moved{{Pair: locality.Pair{From: 1}, Base: 1 << 20, Huge: 2 << 20}},
		Left: map[locality.Left]int64{locality.LeftShared: 7, locality.LeftTier: 0}, Rate: 3 << 20, Pauses: 2, Longest: 4 * time.Millisecond, Calls: 5,
	})
	w.asks("0")
	w.pass(1)
	out := w.s.Outcome(time.Time{})
	text, err := json.Marshal(out.Rows[0].Section)
	if err != nil {
		t.Fatal(err)
	}
	const row = `{"localNodes":"0","ratio":43,"remotePages":14592,"bytesByNode":{"0":45088768,"1":59768832},"fileBytesByNode":{"1":99999},"phase":"InProgress",` +
		`"policySource":"annotation koordinator.sh/memoryLocality","left":{"shared":7,"tier":0},"moved":[{"from":1,"to":0,"base":1048576,"huge":2097152,"hugetlb":0}],` +
		`"bytesPerSecond":3145728,"pauses":2,"longestCallSeconds":0.004,"reason":"memory pressure","wide":true}`
	if string(text) != row {
		t.Errorf("%s\nwant\n%s", text, row)
	}
	view, err := reader{}.Workload(capability.Reported{Row: capability.Sections{name: json.RawMessage(text)}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"memory    43 % on local NUMA nodes 0, 14592 pages elsewhere; InProgress; by annotation koordinator.sh/memoryLocality",
		"memory    43.0 MiB on node 0, 57.0 MiB on node 1",
		"moved     from node 1 to node 0: 1.0 MiB of base pages, 2.0 MiB of huge pages, 0.0 MiB of hugetlb",
		"moved     3.0 MiB a second, 2 pauses, the longest call took 4.0 ms",
		"left      pages by reason: shared 7",
		"pass      memory pressure",
		"mems      cpuset.mems stays wide: memory elsewhere has to move first, and the kernel would move it at once",
	}
	if diff := cmp.Diff(want, view.Lines); diff != "" {
		t.Errorf("explain (-want +got):\n%s", diff)
	}
	node, err := reader{}.Node(capability.Reported{Node: out.Node})
	if err != nil || len(node.Lines) != 1 || !strings.Contains(node.Lines[0], "kernel.numa_balancing") {
		t.Errorf("node %+v, %v", node, err)
	}
	samples := map[string]float64{}
	w.s.Measure(func(s capability.Sample) { samples[s.Metric+" "+strings.Join(s.Labels, " ")] = s.Value })
	of := " ns p redis "
	if diff := cmp.Diff(map[string]float64{
		"memory_local_ratio" + of: 0.43, "memory_node_bytes" + of + " 0": 43 << 20, "memory_node_bytes" + of + " 1": 57 << 20,
		"memory_left_pages" + of + " shared": 7, "memory_left_pages" + of + " tier": 0,
		"memory_moved_bytes_total 1 0 base": 1 << 20, "memory_moved_bytes_total 1 0 huge": 2 << 20, "memory_moved_bytes_total 1 0 hugetlb": 0,
		"memory_move_bytes_per_second ": 3 << 20, "memory_move_pauses_total ": 2, "memory_move_longest_call_seconds ": 0.004,
	}, samples); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	w.cfg.Locality.Enabled = new(false)
	w.pass(1)
	node, err = reader{}.Node(capability.Reported{Node: w.s.Outcome(time.Time{}).Node})
	if err != nil || len(node.Lines) != 2 || node.Lines[0] != "memory locality: switched off (locality.enabled: false)" {
		t.Errorf("node %+v, %v", node, err)
	}
	if err := w.s.Recall(capability.Sections{keyPods: 7}); err == nil {
		t.Error("a checkpoint that cannot be read is no error")
	}
}

// The agent does not read a group that did not opt in.
func TestNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.with(w.container("redis", true, ""))
	w.pass(60)
	w.expect("", "")
	if len(w.s.order)+len(w.s.pods)+len(w.s.host.nodes) > 0 || len(w.mover.orders) > 0 {
		t.Errorf("%+v", w.s)
	}
}

// BenchmarkRest measures the CPU time of a round at rest, with one check of each group every ten seconds.
func BenchmarkRest(b *testing.B) {
	w := newWorld(b)
	const groups = 100
	var all []observed.Workload
	for i := range groups {
		name := fmt.Sprintf("g%d", i)
		w.group("pods/" + name)
		w.cpus("pods/"+name, "0-1")
		w.memory("pods/"+name, 100, 0)
		c := w.container(name, true, `{"policy":"bestEffort","migrateIntervalMinutes":10}`)
		c.PodUID = name
		all = append(all, c)
	}
	w.with(all...)
	w.pass(60)
	b.ResetTimer()
	before := used(b)
	for range b.N {
		w.pass(1)
	}
	b.ReportMetric(float64((used(b)-before).Microseconds())/float64(b.N)/groups, "µs-CPU/group-s")
}

// used returns the CPU time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Stime.Nano() + u.Utime.Nano())
}
