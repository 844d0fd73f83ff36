package cgroupfile

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// cpus gives a group of the desk a list of CPUs, what is in effect of it, and a kind of partition.
func (d *desk) cpus(group, list, effective, kind string) {
	d.Helper()
	for name, text := range map[string]string{
		"cgroup.controllers": "cpuset", "cgroup.events": "populated 1\nfrozen 0", "cpuset.cpus": list,
		"cpuset.cpus.effective": effective, "cpuset.cpus.partition": kind,
	} {
		d.write("sys/fs/cgroup/"+group+"/"+name, text+"\n")
	}
}

// list is the list of a group.
func (d *desk) list(group string) string {
	return d.plain.Read("sys/fs/cgroup/" + group + "/cpuset.cpus")
}

// TestPartlyBack are lists that go back while an administrator's partition beside the group has some of
// their CPUs: these stay out, also where they are offline, and the original stays on record until they are free.
func TestPartlyBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, original         string
		group, partition, kind string // the partition has CPU 3, and CPU 5, which is offline
		partly                 string
		whole, effective       string // once it is gone
		owner                  plan.Owner
	}{
		{"root", "0-3", "db", "rt", "root", "0-2", "0-3", "0-3", plan.OwnerPool},
		{"isolated", "0-3", "db", "rt", "isolated", "0-2", "0-3", "0-3", plan.OwnerPool},
		{"offline", "0-2,5", "db", "rt", "root", "0-2", "0-2,5", "0-2", plan.OwnerPool},
		{"to inherit", string(cgroup.Inherit), "db", "rt", "root", "0-2,4,6-7", "", "0-4,6-7", plan.OwnerPool},
		{"all of them", "3", "db", "rt", "root", "0-1", "3", "3", plan.OwnerPlace}, // it still has what it was given
		{"in a group", "0-3", "pod/db", "pod/rt", "root", "0-2", "0-3", "0-3", plan.OwnerPool},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.write("sys/devices/system/cpu/possible", "0-7\n")
			d.write("sys/devices/system/cpu/online", "0-4,6-7\n")
			d.write("sys/fs/cgroup/cpuset.cpus.effective", "0-2,4,6-7\n")
			d.write("sys/fs/cgroup/pod/cgroup.controllers", "cpuset\n")
			d.write("sys/fs/cgroup/pod/cpuset.cpus.effective", "0-2,4,6-7\n")
			d.cpus(test.partition, "3,5", "3", test.kind)
			d.cpus(test.group, "0-1", "0-1", "member")
			a, j := d.applier(test.group, plan.Value(test.original))

			back := func(what string, want apply.Outcome, list, effective string) {
				t.Helper()
				d.write("sys/fs/cgroup/"+test.group+"/cpuset.cpus.effective", effective+"\n") // as the kernel will say
				r := a.Restore(nil, false)
				if len(r) != 1 || r[0].Outcome != want || r[0].Err != nil {
					t.Fatalf("%s: %+v", what, r)
				}
				if got := d.list(test.group); got != list {
					t.Errorf("%s: the list is %q, want %q", what, got, list)
				}
			}
			if r := a.Restore(nil, true); len(r) != 1 || r[0].Part != (test.owner == plan.OwnerPool) {
				t.Errorf("a dry run says %+v", r)
			}
			back("at first", apply.OutcomePartly, test.partly, test.partly)
			before := j.Entries()
			back("once more", apply.OutcomePartly, test.partly, test.partly)
			if now := j.Entries(); len(now) != 1 || now[0].Original != plan.Value(test.original) || now[0].Owner != test.owner || now[0].Writes != before[0].Writes {
				t.Errorf("the journal has %+v, before %+v", now, before)
			}
			d.cpus(test.partition, "3,5", "3", "member")
			d.write("sys/fs/cgroup/cpuset.cpus.effective", "0-4,6-7\n")
			d.write("sys/fs/cgroup/pod/cpuset.cpus.effective", "0-4,6-7\n")
			back("the partition is gone", apply.OutcomeRestored, test.whole, test.effective)
			if left := j.Entries(); len(left) != 0 {
				t.Errorf("the journal keeps %+v", left)
			}
		})
	}
}

// TestHalfWayBackBesideAPartition: a list that goes back by way of all CPUs of both, since a group below moves to CPUs
// of its own, has none of a partition beside it on the way either.
func TestHalfWayBackBesideAPartition(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("sys/devices/system/cpu/possible", "0-3\n")
	d.write("sys/devices/system/cpu/online", "0-3\n")
	d.write("sys/fs/cgroup/cpuset.cpus.effective", "0-2\n")
	d.cpus("rt", "3", "3", "root")
	d.cpus("pod", "0-1", "0-1", "member")
	d.cpus("pod/db", "0", "0", "member")
	_, j := d.applier("pod", "1-3")
	d.holds(j, "pod/db", "0", "2")
	var all []string
	a := apply.New(Kinds(d.host, nil), j, apply.Options{Now: time.Now, Step: func(s apply.Step, t plan.Target) {
		if s == apply.StepRestored { // the kernel follows
			list := d.list(t.Object)
			all = append(all, t.Object+" "+list)
			d.write("sys/fs/cgroup/"+t.Object+"/cpuset.cpus.effective", list+"\n")
		}
	}})
	r := a.Restore(nil, false)
	if got := strings.Join(all, ", "); got != "pod 0-2, pod/db 2, pod 1-2" {
		t.Errorf("written: %s", got)
	}
	if len(r) != 2 || r[0].Outcome != apply.OutcomePartly || r[1].Outcome != apply.OutcomeRestored {
		t.Errorf("%+v", r)
	}
}

// applier has a journal with the CPUs of a group, which Berth has set to 0-1.
func (d *desk) applier(group string, original plan.Value) (*apply.Applier, *journal.Journal) {
	d.Helper()
	j, err := journal.Open(d.plain.Path("state"), "boot", Values())
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = j.Close() })
	d.holds(j, group, "0-1", original)
	return apply.New(Kinds(d.host, nil), j, apply.Options{Now: time.Now}), j
}

// holds has a journal say which CPUs Berth has set for a group.
func (d *desk) holds(j *journal.Journal, group string, value, original plan.Value) {
	d.Helper()
	g, err := d.host.Group(group)
	if err != nil {
		d.Fatal(err)
	}
	defer g.Close()
	id, err := g.ID(cgroup.CPUSet)
	if err != nil {
		d.Fatal(err)
	}
	s := plan.Setting{Target: Target(group, cgroup.KnobCPUs), ID: Identity(id), Value: value, Owner: plan.OwnerPlace, Workload: "w", Why: "test"}
	err = j.Begin(journal.Entry{Target: s.Target, ID: s.ID, Boot: "boot", Original: original, Owner: s.Owner, Workload: s.Workload, Why: s.Why, Since: time.Unix(1, 0)})
	if err == nil {
		err = j.Intend(plan.Change{Setting: s, From: original})
	}
	if err != nil {
		d.Fatal(err)
	}
}
