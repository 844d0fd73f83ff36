package tuner_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestMemoryNodesThatMayNotChange: if a unit's memory nodes cannot change, nothing of the profile is written. After a
// boot the rest of the profile is written. A unit that already has these nodes is not checked.
func TestMemoryNodesThatMayNotChange(t *testing.T) {
	const service = "/sys/fs/cgroup/system.slice/db.service"
	inTheWay := errors.New("2048 MiB of its memory are on other nodes")
	for name, tt := range map[string]struct {
		has, asked string
		again      bool // after a boot
		err        error
		left       int
	}{
		"in the way":               {has: "0-1", asked: "system.slice/db.service 1", err: tuner.ErrMems},
		"in the way, after a boot": {has: "0-1", asked: "system.slice/db.service 1", again: true, left: 1},
		"has them":                 {has: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.write("/proc/self/mountinfo", "25 24 0:21 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw\n")
			for _, group := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/system.slice", service} {
				h.write(group+"/cgroup.controllers", "cpuset\n")
				h.write(group+"/cgroup.procs", "")
				h.write(group+"/cpuset.mems.effective", "0-1\n")
			}
			h.write(service+"/cpuset.mems", tt.has+"\n")
			var err error
			h.groups, err = cgroup.Open(h.root)
			must(t, err)
			asked, before := "", h.files()
			host := h.host()
			host.Mems = func(group string, to cpuset.Set) error {
				asked += group + " " + to.String()
				return inTheWay
			}
			u, err := tuner.Open(host)
			must(t, err)
			o := tuner.Order{Again: tt.again, Settings: []tune.Setting{{
				Knob: tune.UnitMems, Instance: "db.service", File: service + "/cpuset.mems", Want: "1", Write: "1",
				Support: knob.Settable, Phase: knob.Units,
			}}}
			o.Profile.Name = "test"
			r, err := u.Apply(o)
			must(t, u.Close())
			if !errors.Is(err, tt.err) || errors.Is(err, inTheWay) != (tt.err != nil) || r.Writes != 0 || len(r.Left) != tt.left || asked != tt.asked {
				t.Errorf("%+v, %v, asked about %q, want %v and %q", r, err, asked, tt.err, tt.asked)
			}
			if d := cmp.Diff(before[service+"/cpuset.mems"], h.files()[service+"/cpuset.mems"]); d != "" {
				t.Error(d)
			}
			if record, is, err := tuner.Load(h.state); is && tt.err != nil || len(record.Dormant) != tt.left || err != nil {
				t.Errorf("a record is left: %v, %+v, %v", is, record, err)
			}
		})
	}
}

// TestPartitionOfAHeldList: after a boot the agent holds the CPUs of a unit. The tuner then makes no partition of them
// and leaves the memory nodes too. The rest of the profile is applied.
func TestPartitionOfAHeldList(t *testing.T) {
	const service = "/sys/fs/cgroup/system.slice/db.service"
	h := newHost(t)
	h.write("/proc/self/mountinfo", "25 24 0:21 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw\n")
	for _, group := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/system.slice", service} {
		for file, text := range map[string]string{
			"cgroup.controllers": "cpuset", "cgroup.procs": "", "cpuset.cpus": "2-3", "cpuset.cpus.effective": "2-3",
			"cpuset.cpus.partition": "member", "cpuset.mems": "0-1", "cpuset.mems.effective": "0-1",
		} {
			h.write(group+"/"+file, text+"\n")
		}
	}
	var err error
	h.groups, err = cgroup.Open(h.root)
	must(t, err)
	j, err := journal.Open(filepath.Dir(h.state), boot, driver.Values())
	must(t, err)
	held := cgroupfile.Target("system.slice/db.service", cgroup.KnobCPUs)
	must(t, j.Begin(journal.Entry{Target: held, ID: "x", Original: "0-3", Owner: "place", Workload: "w"}))
	must(t, j.Close())
	unit := func(knobOf, file, want string, phase knob.Phase) tune.Setting {
		return tune.Setting{Knob: knobOf, Instance: "db.service", File: service + "/" + file, Want: want, Write: want, Support: knob.Settable, Phase: phase}
	}
	o := order(0, map[string]string{autogroup: "0"})
	o.Again = true
	o.Settings = append([]tune.Setting{
		unit(tune.UnitCPUs, "cpuset.cpus", "8-9", knob.Exclusives), unit(tune.Partition, "cpuset.cpus.partition", "isolated", knob.Partitions),
		unit(tune.UnitMems, "cpuset.mems", "1", knob.Units),
	}, o.Settings...)
	before := h.files()
	h.do(func(u *tuner.Tuner) {
		r, err := u.Apply(o)
		if err != nil || r.Writes != 1 || len(r.Left) != 3 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	before[autogroup] = "0"
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}

// TestPagesOfAUnitThatRuns: an apply moves the pages of a unit although the kernel moves none at the first write of the
// list. A rollback restores all, also if the apply was killed between any two of the writes that this takes.
func TestPagesOfAUnitThatRuns(t *testing.T) {
	const mems = service + "/cpuset.mems"
	seen := map[string]bool{} // the lists that a killed apply left
	for fatal := 1; ; fatal++ {
		r, o, _ := newRegistry(t)
		r.start()
		r.write("/sys/devices/system/node/possible", "0-3")
		for _, at := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/system.slice", service} {
			r.write(at+"/cgroup.controllers", "cpuset memory\n")
		}
		r.write(service+"/cgroup.events", "populated 1\n")
		var err error
		r.groups, err = cgroup.Open(r.root)
		must(t, err)
		on, remembers := map[string]int{"0": 4204}, "" // pages by node, and the nodes that the kernel remembers, at first none
		count := func() {
			r.write(service+"/memory.numa_stat", fmt.Sprintf("anon N0=%d N1=%d\n", on["0"]<<12, on["1"]<<12))
		}
		count()
		r.makes = func(step string) {
			if !strings.HasPrefix(step, string(apply.StepWritten)) && !strings.HasPrefix(step, string(apply.StepRestored)) || !strings.HasSuffix(step, "cpuset.mems") {
				return
			}
			nodes := r.plain.Read(mems)
			if nodes == "" {
				nodes = "0-3"
			}
			if nodes == "1" && remembers == "0-3" {
				on["1"], on["0"] = on["1"]+on["0"], 0
			}
			remembers = nodes
			r.write(mems+".effective", nodes)
			count()
		}
		dies := r.command(fatal, func(u *tuner.Tuner) {
			if done, err := u.Apply(o); err != nil || done.Writes != 3 || on["0"] != 0 || r.plain.Read(mems) != "1" {
				t.Errorf("%+v, %v; pages %v, list %s", done, err, on, r.plain.Read(mems))
			}
			a, _ := u.Applied()
			for pages, want := range map[int]int64{255: 0, 256: 1 << 20} { // on the other node since then
				on["0"] = pages
				count()
				for _, row := range a.Verify(r.root.FS(), r.kernel, nil) {
					if is := row.Knob == tune.UnitMems; is && (row.Elsewhere != want || row.State != tune.OK) || !is && row.Elsewhere != 0 {
						t.Errorf("verify: %+v", row)
					}
				}
			}
		})
		if dies {
			seen[string(r.lists[cgroup.KnobMems])+" "+r.plain.Read(mems)] = true
		}
		r.step = r.makes
		r.do(func(u *tuner.Tuner) {
			for _, b := range u.Rollback() {
				if b.Err != nil || b.Outcome == apply.OutcomeDrifted {
					t.Errorf("killed at step %d: %+v", fatal, b)
				}
			}
		})
		if has := r.plain.Read(mems); r.lists[cgroup.KnobMems] != cgroup.Inherit || has != "" && has != "0-3" {
			t.Errorf("killed at step %d: systemd has %v, the group %q", fatal, r.lists, has)
		}
		s, err := journal.Load(r.state, driver.Values())
		if _, is, bad := tuner.Load(r.state); is || err != nil || bad != nil || len(s.Entries) > 0 {
			t.Errorf("killed at step %d: on record %t, %v; %v, %v", fatal, is, bad, s.Entries, err)
		}
		if !dies {
			break
		}
	}
	for _, left := range []string{"inherit ", "1 1", "1 0-3"} {
		if !seen[left] {
			t.Errorf("no apply was killed with the lists %q: %v", left, seen)
		}
	}
}
