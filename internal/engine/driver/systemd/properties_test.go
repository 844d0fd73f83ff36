package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	sd "github.com/coreos/go-systemd/v22/dbus"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/test/plain"
)

// reloader is a systemd of plain files on cgroup v2. It stores the properties of its units and writes them to the files
// at once, and again at a daemon-reload.
type reloader struct {
	*plain.Host
	t     *testing.T
	units map[string]map[string]any
	fails error
	hangs bool
	// loses makes each write of a quota divide the burst, as on kernels without the fix of 2024.
	loses bool
	// then is called after a quota was set.
	then func()
	// asked counts the questions for properties, and told counts the orders to set them.
	asked, told int
}

func (r *reloader) GetAllPropertiesContext(ctx context.Context, unit string) (map[string]any, error) {
	r.asked++
	if r.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return r.units[unit], r.fails
}

func (r *reloader) SetUnitPropertiesContext(ctx context.Context, unit string, runtime bool, properties ...sd.Property) error {
	r.told++
	if r.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if r.units[unit] == nil || !runtime {
		return fmt.Errorf("unit %s, runtime %t", unit, runtime)
	}
	for _, p := range properties {
		r.units[unit][p.Name] = p.Value.Value()
	}
	quota := properties[0].Name == "CPUQuotaPerSecUSec"
	r.apply(unit, properties[0].Name == "AllowedCPUs", quota)
	if quota && r.then != nil {
		r.then()
	}
	return r.fails
}

func (*reloader) Close() {}

func (r *reloader) write(name, content string) { r.Write(name, content+"\n") }

func (r *reloader) read(name string) string { return r.Read("sys/fs/cgroup/" + name) }

// reload acts as systemctl daemon-reload.
func (r *reloader) reload() {
	for unit := range r.units {
		r.apply(unit, true, true)
	}
}

// apply writes the recorded properties of a unit. An empty list is not written.
func (r *reloader) apply(unit string, list, quota bool) {
	properties := r.units[unit]
	group := "sys/fs/cgroup" + properties["ControlGroup"].(string)
	if properties["ControlGroup"] == "" {
		return // it does not run
	}
	if set := setOf(properties["AllowedCPUs"].([]byte)); list && !set.IsEmpty() {
		r.write(group+"/cpuset.cpus", set.String())
		r.write(group+"/cpuset.cpus.effective", set.String())
	}
	if !quota {
		return
	}
	text := "max 100000"
	if n := properties["CPUQuotaPerSecUSec"].(uint64); n != math.MaxUint64 {
		text = fmt.Sprintf("%d 100000", n/10)
	}
	r.write(group+"/cpu.max", text)
	if r.loses {
		burst, err := strconv.Atoi(r.read(strings.TrimPrefix(group, "sys/fs/cgroup/") + "/cpu.max.burst"))
		if err != nil {
			r.t.Fatal(err)
		}
		r.write(group+"/cpu.max.burst", strconv.Itoa(burst/1000))
	}
}

// scope adds a unit with CPUs and without a quota, as a container runtime creates it from such an answer.
func (r *reloader) scope(unit, group string, transient bool) {
	r.write("sys/fs/cgroup/"+group+"/cgroup.controllers", "cpuset cpu")
	r.units[unit] = map[string]any{
		"ControlGroup": "/" + group, "Transient": transient, "AllowedCPUs": []byte{0b1100},
		"CPUQuotaPerSecUSec": uint64(math.MaxUint64), "CPUQuotaPeriodUSec": uint64(math.MaxUint64),
	}
	r.reload()
}

const (
	runtimeScope = "kubepods.slice/cri-containerd-a.scope"
	service      = "system.slice/redis.service"
	nested       = "kubepods.slice/x.scope/cri-containerd-a.scope"
)

// newReloader returns a systemd with a container's scope and a service. The journal is from an agent that is gone and
// had no connection to systemd.
func newReloader(t *testing.T) (*reloader, *cgroup.Host, *journal.Journal) {
	t.Helper()
	r := &reloader{Host: plain.WithGroups(t, "cpuset cpu"), t: t, units: map[string]map[string]any{}}
	r.write("sys/devices/system/cpu/online", "0-3")
	r.write("sys/devices/system/cpu/possible", "0-3")
	for _, above := range []string{"", "kubepods.slice/", "kubepods.slice/x.scope/", "system.slice/"} {
		r.write("sys/fs/cgroup/"+above+"cgroup.controllers", "cpuset cpu")
		r.write("sys/fs/cgroup/"+above+"cpuset.cpus.effective", "0-3")
	}
	r.scope("cri-containerd-a.scope", runtimeScope, true)
	r.scope("redis.service", service, false)
	host := r.Cgroups()
	j, err := journal.Open(t.TempDir(), "boot", cgroupfile.Values())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	for _, group := range []string{runtimeScope, service} {
		r.journal(host, j, group, cgroup.KnobCPUs, cgroup.Inherit, "2-3")
		r.journal(host, j, group, cgroup.KnobMax, "41700 100000", "max 100000")
	}
	return r, host, j
}

func (r *reloader) journal(host *cgroup.Host, j *journal.Journal, group string, k cgroup.Knob, from, value cgroup.Value) {
	r.t.Helper()
	r.journalTarget(host, j, cgroupfile.Target(group, k), from, value)
}

func (r *reloader) journalTarget(host *cgroup.Host, j *journal.Journal, target plan.Target, from, value cgroup.Value) {
	r.t.Helper()
	g, err := host.Group(target.Object)
	if err != nil {
		r.t.Fatal(err)
	}
	defer g.Close()
	id, err := g.ID(cgroupfile.Knob(target).Controller())
	if err != nil {
		r.t.Fatal(err)
	}
	s := plan.Setting{
		Target: target, ID: cgroupfile.Identity(id), Value: plan.Value(value), Owner: plan.OwnerPlace, Workload: "w",
	}
	if _, err = apply.New(cgroupfile.Kinds(host, nil), j, apply.Options{}).Adopt([]plan.Change{{Setting: s, From: plan.Value(from)}}); err != nil {
		r.t.Fatal(err)
	}
}

// kernel makes the list in the file effective after a write.
func (r *reloader) kernel(s apply.Step, t plan.Target) {
	if s == apply.StepRestored && cgroupfile.Knob(t) == cgroup.KnobCPUs {
		r.write("sys/fs/cgroup/"+t.Object+"/cpuset.cpus.effective", cmp.Or(r.read(t.Object+"/cpuset.cpus"), "0-3"))
	}
}

// A rollback survives a daemon-reload: it also restores what the runtime recorded in systemd.
func TestRollbackOutlivesReload(t *testing.T) {
	r, host, j := newReloader(t)
	s := New()
	s.dial = func() (bus, error) { return r, nil }
	options := apply.Options{Step: r.kernel, Records: true}
	all := apply.New(cgroupfile.Kinds(host, s), j, options).Restore(nil, false)
	for _, one := range all {
		if one.Outcome != apply.OutcomeRestored || one.Err != nil {
			t.Errorf("%s: %s %v", one.Entry.Target, one.Outcome, one.Err)
		}
	}
	if len(all) != 4 || len(j.Entries()) > 0 {
		t.Errorf("%d put back, %d entries left", len(all), len(j.Entries()))
	}
	if got := r.read(runtimeScope + "/cpu.max"); got != "41700 100000" {
		t.Errorf("the quota is %s right after the rollback", got)
	}
	r.reload()
	for name, want := range map[string]string{
		runtimeScope + "/cpuset.cpus.effective": "0-3",
		runtimeScope + "/cpu.max":               "42000 100000", // the value of a runtime's unit, in whole percents
		service + "/cpuset.cpus.effective":      "0-3",
		service + "/cpu.max":                    "max 100000", // not a runtime's: systemd never knew the quota
	} {
		if got := r.read(name); got != want {
			t.Errorf("%s is %q after a daemon-reload, want %q", name, got, want)
		}
	}
}

// A service that was restarted or stopped runs without Berth's list after a rollback. The property is restored unless
// another writer has changed it.
func TestRollbackOfRestartedService(t *testing.T) {
	for name, tt := range map[string]struct {
		stopped bool
		has     []byte // on systemd's record
		outcome apply.Outcome
		want    string // the list after the next start
	}{
		"restarted":                  {false, []byte{0b1100}, apply.OutcomeRestored, ""},
		"stopped":                    {true, []byte{0b1100}, apply.OutcomeGone, ""},
		"stopped, and another's now": {true, []byte{0b10}, apply.OutcomeGone, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, host, j := newReloader(t)
			const unit = "cron.service"
			const group = "system.slice/" + unit
			r.scope(unit, group, false)
			r.units[unit]["Slice"] = "system.slice"
			r.journalTarget(host, j, cgroupfile.UnitTarget(group, cgroup.KnobCPUs), cgroup.Inherit, "2-3")
			start := func() {
				r.write("sys/fs/cgroup/"+group+"/cgroup.controllers", "cpuset cpu")
				r.write("sys/fs/cgroup/"+group+"/cpuset.cpus", "")
				r.units[unit]["ControlGroup"] = "/" + group
				r.reload()
			}
			r.units[unit]["AllowedCPUs"] = tt.has
			stop := func() {
				if err := os.Rename(r.Path("sys/fs/cgroup", group), filepath.Join(t.TempDir(), "old")); err != nil {
					t.Fatal(err)
				}
				r.units[unit]["ControlGroup"] = ""
			}
			stop()
			if !tt.stopped {
				start()
			}
			s := New()
			s.dial = func() (bus, error) { return r, nil }
			only := func(e journal.Entry) bool { return e.Target.Object == group }
			if _, known := j.Entry(cgroupfile.UnitTarget(group, cgroup.KnobCPUs)); !known {
				t.Fatal("no entry")
			}
			all := apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel, Records: true}).Restore(only, false)
			if len(all) != 1 || all[0].Outcome != tt.outcome || all[0].Err != nil {
				t.Errorf("%+v", all)
			}
			if _, known := j.Entry(cgroupfile.UnitTarget(group, cgroup.KnobCPUs)); known {
				t.Error("the entry is left")
			}
			if !tt.stopped {
				stop()
			}
			start()
			if got := r.read(group + "/cpuset.cpus"); got != tt.want {
				t.Errorf("after the next start it has %q, want %q", got, tt.want)
			}
		})
	}
}

// When systemd 261 empties a list on its record, the list stays effective in the file (systemd#43846), whoever empties
// it. The rollback uses the file, and it lasts.
func TestRollbackOfListThatSystemdForgot(t *testing.T) {
	const unit, group = "cron.service", "system.slice/cron.service"
	for _, before := range []bool{false, true} { // whether another program already emptied it
		r, host, j := newReloader(t)
		r.scope(unit, group, false)
		target := cgroupfile.UnitTarget(group, cgroup.KnobCPUs)
		r.journalTarget(host, j, target, cgroup.Inherit, "2-3")
		s := New()
		s.dial = func() (bus, error) { return r, nil }
		if before {
			if err := s.SetList(unit, cgroup.KnobCPUs, cgroup.Inherit); err != nil {
				t.Fatal(err)
			}
			r.reload()
		}
		if got := r.read(group + "/cpuset.cpus"); got != "2-3" {
			t.Fatalf("systemd left %q", got)
		}
		only := func(e journal.Entry) bool { return e.Target == target }
		all := apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel, Records: true}).Restore(only, false)
		if len(all) != 1 || all[0].Outcome != apply.OutcomeRestored || all[0].Err != nil {
			t.Errorf("%+v", all)
		}
		r.reload()
		if file, has := r.read(group+"/cpuset.cpus"), r.read(group+"/cpuset.cpus.effective"); file != "" || has != "0-3" {
			t.Errorf("the file has %q, in effect is %s", file, has)
		}
	}
}

// A service whose file names all CPUs, which the kernel requires while processes run, has no list on systemd's record.
// It must have none after a host profile, whose originals are claimed first, or after a single change. A list on record
// stays there.
func TestListByNameIsNoneOnRecord(t *testing.T) {
	const unit, group = "cron.service", "system.slice/cron.service"
	for name, c := range map[string]struct {
		stands   string
		record   []byte
		original plan.Value
	}{
		"all by name":          {"0-3", []byte{}, plan.Value(cgroup.Inherit)},
		"all, of an owner":     {"0-3", []byte{0b1111}, "0-3"},
		"some, of nobody":      {"0-2", []byte{}, "0-2"},
		"none":                 {"", []byte{}, plan.Value(cgroup.Inherit)},
		"another than on file": {"0-3", []byte{0b11}, "0-3"},
	} {
		for _, claimed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, claimed %t", name, claimed), func(t *testing.T) {
				r, host, j := newReloader(t)
				r.scope(unit, group, false)
				r.units[unit]["AllowedCPUs"] = c.record
				r.write("sys/fs/cgroup/"+group+"/cpuset.cpus", c.stands)
				r.write("sys/fs/cgroup/"+group+"/cpuset.cpus.effective", cmp.Or(c.stands, "0-3"))
				s := New()
				s.dial = func() (bus, error) { return r, nil }
				a := apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel})
				target := cgroupfile.UnitTarget(group, cgroup.KnobCPUs)
				found := a.Read([]plan.Target{target})[0]
				change := plan.Change{Setting: plan.Setting{Target: target, ID: found.ID, Value: "2", Owner: plan.OwnerPool, Workload: "w"}, From: found.Value}
				if claimed {
					if err := a.Claim([]plan.Change{change}); err != nil {
						t.Fatal(err)
					}
				}
				if res := a.Apply([]plan.Change{change})[0]; res.Err != nil {
					t.Fatal(res.Err)
				}
				if e, _ := j.Entry(target); e.Original != c.original {
					t.Errorf("the original is %q, want %q", e.Original, c.original)
				}
				for _, one := range a.Restore(func(e journal.Entry) bool { return e.Target == target }, false) {
					if one.Outcome != apply.OutcomeRestored || one.Err != nil {
						t.Errorf("%s: %s %v", one.Entry.Target, one.Outcome, one.Err)
					}
				}
				set, _, err := cgroup.Value(c.original).List()
				if has := r.units[unit]["AllowedCPUs"].([]byte); err != nil || setOf(has) != set {
					t.Errorf("systemd has %s on record, want %s", setOf(has), set)
				}
			})
		}
	}
}

// A value that systemd does not restore stays in the journal, and the next rollback restores it.
func TestRollbackWithoutSystemd(t *testing.T) {
	r, host, j := newReloader(t)
	s := New()
	s.dial = func() (bus, error) { return r, nil }
	r.fails = errors.New("no answer")
	a := apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel, Records: true})
	for _, one := range a.Restore(nil, false) {
		if one.Outcome != apply.OutcomeFailed || !errors.Is(one.Err, r.fails) {
			t.Errorf("%s: %s %v", one.Entry.Target, one.Outcome, one.Err)
		}
	}
	r.fails = nil
	for _, one := range a.Restore(nil, false) {
		if one.Outcome != apply.OutcomeAlready || one.Err != nil {
			t.Errorf("%s: %s %v", one.Entry.Target, one.Outcome, one.Err)
		}
	}
	r.reload()
	if cpus, quota := r.read(runtimeScope+"/cpuset.cpus.effective"), r.read(runtimeScope+"/cpu.max"); cpus != "0-3" || quota != "42000 100000" {
		t.Errorf("after a daemon-reload: %s, %s", cpus, quota)
	}
}

// A quota that systemd writes while its record is set must not cost the group its burst.
func TestRollbackOfRecordKeepsBurst(t *testing.T) {
	r, host, j := newReloader(t)
	r.write("sys/fs/cgroup/"+runtimeScope+"/cpu.max.burst", "20000")
	r.loses = true
	s := New()
	s.dial = func() (bus, error) { return r, nil }
	for _, one := range apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel, Records: true}).Restore(nil, false) {
		if one.Outcome != apply.OutcomeRestored || one.Err != nil {
			t.Errorf("%s: %s %v", one.Entry.Target, one.Outcome, one.Err)
		}
	}
	if got := r.read(runtimeScope + "/cpu.max.burst"); got != "20000" {
		t.Errorf("the burst is %s, want 20000", got)
	}
}

// A hanging systemd costs one timeout in Restore, after all writes to files. Only entries that systemd may have on
// record fail.
func TestRollbackWithHungSystemd(t *testing.T) {
	r, host, j := newReloader(t)
	r.write("sys/fs/cgroup/"+runtimeScope+"/cpu.max.burst", "0")
	r.write("sys/fs/cgroup/"+nested+"/cgroup.controllers", "cpuset cpu")
	r.write("sys/fs/cgroup/"+nested+"/cpu.max", "max 100000")
	r.journal(host, j, runtimeScope, cgroup.KnobBurst, "0 100000", "0 100000")
	r.journal(host, j, nested, cgroup.KnobMax, "41700 100000", "max 100000")
	r.hangs = true
	synctest.Test(t, func(t *testing.T) {
		s := New()
		s.dial = func() (bus, error) { return r, nil }
		all := apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel, Records: true}).Restore(nil, false)
		failed := 0
		for _, one := range all {
			onRecord := one.Entry.Target.Object != nested && cgroupfile.Knob(one.Entry.Target) != cgroup.KnobBurst
			if onRecord != (one.Outcome == apply.OutcomeFailed) || onRecord != errors.Is(one.Err, cgroupfile.ErrNoUnits) {
				t.Errorf("%s: %s %v", one.Entry.Target, one.Outcome, one.Err)
			}
			if onRecord {
				failed++
			}
		}
		if failed != 4 || len(j.Entries()) != failed || r.asked != 1 {
			t.Errorf("%d failed, %d entries left, systemd asked %d times", failed, len(j.Entries()), r.asked)
		}
	})
	for _, group := range []string{runtimeScope, service, nested} {
		if got := r.read(group + "/cpu.max"); got != "41700 100000" {
			t.Errorf("the quota of %s is %s", group, got)
		}
	}
}

// A hanging systemd costs one timeout in an Apply of several lists as well.
func TestListsOfHungSystemd(t *testing.T) {
	r, host, j := newReloader(t)
	var targets []plan.Target
	for _, unit := range []string{"a.service", "b.service", "c.service"} {
		group := "system.slice/" + unit
		r.scope(unit, group, false)
		r.write("sys/fs/cgroup/"+group+"/cpuset.cpus", "0-2")
		r.write("sys/fs/cgroup/"+group+"/cpuset.cpus.effective", "0-2")
		targets = append(targets, cgroupfile.UnitTarget(group, cgroup.KnobCPUs))
	}
	r.hangs = true
	synctest.Test(t, func(t *testing.T) {
		s := New()
		s.dial = func() (bus, error) { return r, nil }
		a := apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel})
		var changes []plan.Change
		for i, found := range a.Read(targets) {
			changes = append(changes, plan.Change{Setting: plan.Setting{Target: targets[i], ID: found.ID, Value: "2", Owner: plan.OwnerPool, Workload: "w"}, From: found.Value})
		}
		for _, one := range a.Apply(changes) {
			if !errors.Is(one.Err, cgroupfile.ErrNoUnits) {
				t.Errorf("%+v", one)
			}
		}
	})
	if r.asked+r.told != 1 {
		t.Errorf("systemd was asked %d times, and told %d times", r.asked, r.told)
	}
}

// After a record was set, only a value of Berth's or of systemd's is overwritten, and only in the group of the entry.
func TestRollbackOfRecordComparesAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		anew    bool
		stands  string
		outcome apply.Outcome
	}{
		{"another group of that name", true, "max 100000", apply.OutcomeGone},
		{"another writer's value", false, "30000 100000", apply.OutcomeDrifted},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, host, j := newReloader(t)
			r.then = func() {
				dir := r.Path("sys/fs/cgroup", runtimeScope)
				if c.anew {
					if err := os.Rename(dir, dir+".old"); err != nil {
						t.Fatal(err)
					}
					r.write("sys/fs/cgroup/"+runtimeScope+"/cgroup.controllers", "cpuset cpu")
				}
				r.write("sys/fs/cgroup/"+runtimeScope+"/cpu.max", c.stands)
			}
			s := New()
			s.dial = func() (bus, error) { return r, nil }
			target := cgroupfile.Target(runtimeScope, cgroup.KnobMax)
			only := func(e journal.Entry) bool { return e.Target == target }
			all := apply.New(cgroupfile.Kinds(host, s), j, apply.Options{Step: r.kernel, Records: true}).Restore(only, false)
			if len(all) != 1 || all[0].Outcome != c.outcome || all[0].Err != nil {
				t.Errorf("%+v", all)
			}
			if got := r.read(runtimeScope + "/cpu.max"); got != c.stands {
				t.Errorf("the quota is %s, want %s", got, c.stands)
			}
			if _, known := j.Entry(target); known != (c.outcome == apply.OutcomeDrifted) {
				t.Errorf("entry kept: %t", known)
			}
		})
	}
}

func TestProperty(t *testing.T) {
	r, _, _ := newReloader(t)
	s := New()
	s.dial = func() (bus, error) { return r, nil }
	r.units["kubepods.slice"] = map[string]any{
		"ControlGroup": "/kubepods.slice", "Transient": true, "AllowedCPUs": []byte{}, "AllowedMemoryNodes": []byte{2},
		"CPUQuotaPerSecUSec": uint64(420_000), "CPUQuotaPeriodUSec": uint64(50_000),
	}
	for _, c := range []struct {
		group    string
		knob     cgroup.Knob
		want     cgroup.Value
		recorded bool
	}{
		{runtimeScope, cgroup.KnobCPUs, "2-3", true},
		{runtimeScope, cgroup.KnobMems, cgroup.Inherit, true},
		{runtimeScope, cgroup.KnobMax, "max 100000", true},
		{runtimeScope, cgroup.KnobBurst, "", false},
		{service, cgroup.KnobCPUs, "2-3", true},
		{service, cgroup.KnobMax, "", false},
		{"kubepods.slice", cgroup.KnobMax, "21000 50000", true},
		{"kubepods.slice", cgroup.KnobMems, "1", true},
		{"other.slice/cri-containerd-a.scope", cgroup.KnobCPUs, "", false}, // another group of that name
		{nested, cgroup.KnobCPUs, "", false},
	} {
		got, recorded, err := s.Property(c.group, c.knob)
		if got != c.want || recorded != c.recorded || err != nil {
			t.Errorf("%s of %s is %q, %t, %v", c.knob, c.group, got, recorded, err)
		}
	}
	r.fails = errors.New("no answer")
	if _, _, err := s.Property(runtimeScope, cgroup.KnobCPUs); !errors.Is(err, r.fails) {
		t.Errorf("%v", err)
	}
}

// TestAsked checks the CPUs and memory nodes that a unit asks for, also while it does not run. Another unit's group of
// the same name asks for none.
func TestAsked(t *testing.T) {
	r := &reloader{Host: plain.WithGroups(t, "cpuset cpu"), t: t, units: map[string]map[string]any{
		"db.service": {"ControlGroup": "", "Slice": "system.slice", "CPUAffinity": []byte{0b101}, "NUMAMask": []byte{0b10}, "NUMAPolicy": int32(2)},
		"no.service": {"ControlGroup": "", "Slice": "system.slice", "NUMAMask": []byte{0b10}, "NUMAPolicy": int32(-1)},
		"x.slice":    {"ControlGroup": "/x.slice", "Slice": "-.slice"},
	}}
	conn := &Conn{dial: func() (bus, error) { return r, nil }}
	for _, tt := range []struct {
		group string
		knob  cgroup.Knob
		want  string
	}{
		{"system.slice/db.service", cgroup.KnobCPUs, "0,2"},
		{"system.slice/db.service", cgroup.KnobMems, "1"},
		{"system.slice/no.service", cgroup.KnobMems, ""},
		{"other.slice/db.service", cgroup.KnobCPUs, ""},
		{"x.slice", cgroup.KnobCPUs, ""},
	} {
		if got, err := conn.Asked(tt.group, tt.knob); err != nil || got.String() != tt.want {
			t.Errorf("%s %s: %s, %v, want %s", tt.group, tt.knob, got, err, tt.want)
		}
	}
	r.fails = errors.New("no answer")
	if _, err := conn.Asked("x.slice", cgroup.KnobCPUs); !errors.Is(err, r.fails) {
		t.Error(err)
	}
}
