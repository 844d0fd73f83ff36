package tuner_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
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
