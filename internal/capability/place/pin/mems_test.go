package pin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/groups"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

func list(t *testing.T, text string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// twoNodes returns a host with two NUMA nodes of two CPUs each, and a group with these memory nodes.
func twoNodes(mems string) map[string]string {
	files := map[string]string{
		"sys/devices/system/cpu/online": "0-3\n", "sys/devices/system/node/online": "0-1\n",
		"sys/fs/cgroup/cpuset.cpus.effective": "0-3\n", "sys/fs/cgroup/db/cgroup.controllers": "cpuset cpu\n",
		"sys/fs/cgroup/db/cpuset.cpus": "\n", "sys/fs/cgroup/db/cpuset.cpus.effective": "0-3\n", "sys/fs/cgroup/db/cpuset.mems.effective": mems + "\n",
	}
	for node, cpus := range []string{"0-1", "2-3"} {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", node)
		files[dir+"cpulist"], files[dir+"distance"] = cpus+"\n", []string{"10 20\n", "20 10\n"}[node]
		files[dir+"meminfo"] = fmt.Sprintf("Node %d MemTotal: 8388608 kB\n", node)
	}
	for cpu := range 4 {
		files[fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)] = fmt.Sprintf("%d\n", cpu)
	}
	return files
}

// pinned returns the CPU sets of such a host with one pinned container.
func pinned(t *testing.T, mems string) *Sets {
	t.Helper()
	s := newNode(t, twoNodes(mems))
	reads(s)
	resources := workload.Resources{CPURequest: 2000, CPULimit: 2000, MemoryLimit: 1 << 30}
	p := &cluster.Pod{
		Key: "ns/db", Object: cluster.Object{Namespace: "ns", Name: "db", UID: "u"},
		Pod: workload.Pod{
			Namespace: "ns", Name: "db", UID: "u", Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"},
			Scheduled: 2000, Containers: []workload.Container{{Name: "db", Resources: resources}},
		},
	}
	s.inventory.Take(&cluster.Snapshot{Generation: 1, Pods: []*cluster.Pod{p}, PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 4000}})
	box := nri.Pod{ID: "box", UID: "u", Namespace: "ns", Name: "db", CgroupParent: "pod", CgroupPath: "pod/box", Annotations: p.Annotations}
	c := nri.Container{ID: "db", PodID: "box", Name: "db", CgroupPath: "db"}
	for _, e := range []nri.Event{{Kind: nri.Synchronize}, {Kind: nri.RunPod, Pod: box}, {Kind: nri.Create, Pod: box, Container: c}, {Kind: nri.Start, Pod: box, Container: c}} {
		if _, err := s.assignment.Handle(e, true); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// urgently is a Reconciler without systemd.
type urgently struct{ *reconcile.Reconciler }

func (u urgently) Urgent(group string, desired []plan.Desired) { u.Reconciler.Urgent(group, desired) }

// mems returns the desired memory nodes of the container in a round, and the groups that wait for their pages.
func mems(s *Sets, keeps bool) (desired string, asked []string) {
	n := &capability.Node{}
	if keeps {
		n.Pages = map[string]capability.Pages{"db": {Moving: true}}
	}
	for _, d := range s.Decide(n).Settings {
		if strings.Contains(fmt.Sprint(d.Target), string(cgroup.KnobMems)) {
			desired = string(d.Value)
		}
	}
	for group, to := range n.Wide {
		asked = append(asked, group+" "+to.String())
	}
	return desired, asked
}

// rowOf returns the reported row of the container.
func rowOf(t *testing.T, s *Sets) ContainerCPUs {
	t.Helper()
	for _, row := range s.Outcome(time.Time{}).Node[keyCPUs].(*CPUs).Containers {
		if row.Container == "db" {
			return row
		}
	}
	t.Fatal("the container is not reported")
	return ContainerCPUs{}
}

// A group keeps its memory nodes while its pages have to stay for some time. A jump to another node first uses the
// union of both. The narrowing follows after the pass.
func TestMemsStayWideWhilePagesMove(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has, want string
	}{
		"narrowing": {"0-1", "0-1"}, "narrow already": {"0", "0"}, "jump": {"1", "0-1"}, "not known": {"", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pinned(t, c.has)
			got, asked := mems(s, true)
			if diff := cmp.Diff([]string{"db 0"}, asked); got != c.want || diff != "" {
				t.Errorf("desired %q, want %q; asked (-want +got):\n%s", got, c.want, diff)
			}
			row := rowOf(t, s)
			const reason = "; memory nodes stay 0-1 until its pages have moved to 0"
			if strings.HasSuffix(row.Why, reason) != (c.want == "0-1") || row.Mems != c.want {
				t.Errorf("reported %+v", row)
			}
			if got, _ := mems(s, false); got != "0" {
				t.Errorf("after the pass desired %q", got)
			}
			if row := rowOf(t, s); row.Mems != "0" || strings.Contains(row.Why, "stay") {
				t.Errorf("after the pass reported %+v", row)
			}
		})
	}
}

// A group that must not be narrowed keeps its memory nodes even without a locality policy, and its row gives the
// reason. The agent stops asking once the desired memory nodes are in effect.
func TestMemsStayWideWhereNarrowingHarms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has, want string
		asks      int
	}{
		"narrowing": {"0-1", "0-1", 1}, "narrow already": {"0", "0", 0}, "jump": {"1", "0-1", 1}, "not known": {"", "0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pinned(t, c.has)
			asks, harm := 0, errors.New("a policy would be rebound")
			s.opts.MayChange = func(group string, to cpuset.Set) error {
				if to.String() != "0" {
					return nil
				}
				if asks++; group != "db" {
					t.Errorf("asked about %s", group)
				}
				return harm
			}
			if got, _ := mems(s, false); got != c.want || asks != c.asks {
				t.Errorf("desired %q after %d questions, want %q after %d", got, asks, c.want, c.asks)
			}
			row, reason := rowOf(t, s), "; memory nodes stay 0-1, and not 0: a policy would be rebound"
			if strings.HasSuffix(row.Why, reason) != (c.want == "0-1") || row.Mems != c.want {
				t.Errorf("reported %+v", row)
			}
			harm = nil
			if got, _ := mems(s, false); got != "0" {
				t.Errorf("with nothing in the way desired %q", got)
			}
		})
	}
}

// A group that must not even get its new memory nodes in addition to its own keeps what it has. These nodes are then
// desired: a group that waits for memory nodes would keep other pods from the CPUs that it left.
func TestMemsStayWhereWideningHarms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has, to string
		moves   bool
		refused string // refused memory nodes
		want    string
		why     string
	}{
		"more":                  {"0", "0-1", false, "", "", ""},
		"more, refused":         {"0", "0-1", false, "0-1", "0", ", and not 0-1: 600 threads"},
		"more, of a pass":       {"0", "0-1", true, "0-1", "0", ", and not 0-1: 600 threads"},
		"others":                {"1", "0", false, "", "", ""},
		"others, beside":        {"1", "0", false, "0", "0-1", ", and not 0: 600 threads"},
		"others, refused":       {"1", "0", false, "0 0-1", "1", ", and not 0-1: 600 threads"},
		"others, of a pass":     {"1", "0", true, "0", "0-1", " until its pages have moved to 0"},
		"others, pass, refused": {"1", "0", true, "0-1", "1", ", and not 0-1: 600 threads"},
		"fewer, refused":        {"0-1", "0", false, "0", "0-1", ", and not 0: 600 threads"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pinned(t, c.has)
			s.opts.MayChange = func(_ string, to cpuset.Set) error {
				if slices.Contains(strings.Fields(c.refused), to.String()) {
					return errors.New("600 threads")
				}
				return nil
			}
			s.last.wide = map[string]cpuset.Set{}
			if c.moves {
				s.pages = map[string]capability.Pages{"db": {Moving: true}}
			}
			if got := s.kept(place.Desired{Group: "db", Mems: list(t, c.to)}); got.mems.String() != c.want || got.why != c.why {
				t.Errorf("it gets %s%s, want %s%s", got.mems, got.why, c.want, c.why)
			}
		})
	}
}

// The agent does not read a group whose memory nodes are known from the last pass. This ends when another program
// changes them.
func TestMemsInEffectAreNotLookedAt(t *testing.T) {
	t.Parallel()
	s := pinned(t, "0-1") // what reading would find
	s.opts.MayChange = func(string, cpuset.Set) error { return errors.New("asked") }
	s.Saw(0, &reconcile.Report{Groups: []reconcile.Status{{Group: "db", State: reconcile.StateApplied, Mems: list(t, "0")}}})
	if got, _ := mems(s, false); got != "0" {
		t.Errorf("desired %q of a group that has memory node 0 alone", got)
	}
	s.Saw(0, &reconcile.Report{Groups: []reconcile.Status{{Group: "db", State: reconcile.StateApplied, Mems: list(t, "0-1")}}})
	if got, _ := mems(s, false); got != "0-1" {
		t.Errorf("desired %q of a group that another program widened", got)
	}
}

// An answer changes no memory nodes of a running group. This is also true before the first round, when it is not yet
// known which pages have to move.
func TestAnswerChangesNoMems(t *testing.T) {
	t.Parallel()
	for has, want := range map[string]string{"0-1": "0-1", "1": "1", "0": "0"} {
		s := pinned(t, has)
		a, err := s.assignment.Handle(nri.Event{Kind: nri.Update, Pod: nri.Pod{ID: "box", UID: "u"}, Container: nri.Container{ID: "db", PodID: "box", Name: "db", CgroupPath: "db"}}, true)
		if err != nil || len(a.Reply.Updates) != 1 || len(a.Changes) != 1 {
			t.Fatalf("answer %+v, %v", a, err)
		}
		if got := a.Reply.Updates[0]; got.Mems.String() != want || a.Changes[0].Mems != got.Mems || got.CPUs.String() != "0-1" {
			t.Errorf("with memory nodes %s: changes %+v, reply %+v", has, a.Changes, a.Reply)
		}
		if known := s.inventory.Containers().Answers("db")["db"].Mems; !slices.Contains(known, a.Changes[0].Mems) {
			t.Errorf("answered %v, remembered %v", a.Changes[0].Mems, known)
		}
	}
}

// The runtime's record must follow the memory nodes of a container that was created with fewer. At a daemon-reload PID
// 1 writes the last answer again, and the kernel would move all pages off the other nodes. The agent answers once, with
// the memory nodes in effect.
func TestRecordFollowsMems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has, cpus string // in effect
		recorded  []string
		want      string
		may       bool // narrowing is permitted
	}{
		"as it was made":         {"0", "0-1", []string{"0"}, "", false},
		"wider":                  {"0-1", "0-1", []string{"0"}, "0-1", false},
		"wider, in the record":   {"0-1", "0-1", []string{"0", "0-1"}, "", false},
		"narrower again":         {"0", "0-1", []string{"0", "0-1"}, "0", false},
		"without those to come":  {"1", "0-1", []string{"0"}, "", false},
		"about to be narrowed":   {"0-1", "0-1", []string{"1"}, "", true},
		"never answered":         {"0-1", "0-1", nil, "", false},
		"with CPUs to come":      {"0-1", "0", []string{"0"}, "", false},
		"nodes that are unknown": {"", "0-1", []string{"0"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pinned(t, c.has)
			all := s.opts.Groups.(*groups.Groups)
			s.opts.Reconciler = urgently{reconcile.New(reconcile.Options{
				Host: s.opts.Host, Journal: all.Journal, Applier: apply.New(cgroupfile.Kinds(s.opts.Host, nil), all.Journal, apply.Options{}),
			})}
			if !c.may {
				s.opts.MayChange = func(string, cpuset.Set) error { return errors.New("a policy would be rebound") }
			}
			answered := inventory.Answered{Pod: "u", CPUs: []cpuset.Set{list(t, "0-1")}}
			for _, one := range c.recorded {
				answered.Mems = append(answered.Mems, list(t, one))
			}
			s.inventory.Containers().Recall(map[string]inventory.Answered{"db": answered})
			found := reconcile.Report{Groups: []reconcile.Status{{Group: "db", State: reconcile.StateApplied, CPUs: list(t, c.cpus)}}}
			s.inventory.Saw(found.CPUs) // as the agent does
			s.Saw(0, &found)
			mems(s, false)
			for round, want := range []string{c.want, ""} {
				got := ""
				a, err := s.Answer(nri.Event{
					Kind: nri.Create, Pod: nri.Pod{ID: "new-box", UID: "new", Namespace: "ns", Name: "new", CgroupParent: "new"},
					Container: nri.Container{ID: fmt.Sprint("new-", round), PodID: "new-box", Name: "new"},
				}, true)
				for _, u := range a.Updates {
					if u.ContainerID == "db" {
						got = u.Mems.String()
						if u.CPUs.String() != "0-1" || !u.NoQuota {
							t.Errorf("answered %+v", u)
						}
					}
				}
				if err != nil || got != want {
					t.Errorf("answer %d has memory nodes %q, want %q; %v", round, got, want, err)
				}
			}
		})
	}
}
