package hostfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/hostfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/test/plain"
)

const boot = "11111111-2222-3333-4444-555555555555"

// recorded is a tree of plain files with the content that they have on a real host.
type recorded struct {
	*plain.Host
	t     *testing.T
	kinds apply.Kinds
}

func newRecorded(t *testing.T) *recorded {
	t.Helper()
	r := &recorded{Host: plain.New(t), t: t}
	for name, content := range map[string]string{
		"/proc/sys/vm/stat_interval":                  "1\n",
		"/proc/sys/kernel/printk":                     "4\t4\t1\t7\n",
		"/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
		"/sys/block/vda/queue/scheduler":              "[none] \n",
		"/sys/fs/cgroup/cpu.max":                      "max 100000\n",
		"/sys/class/net/eth0/ifindex":                 "2\n",
		"/proc/sys/net/ipv4/conf/all/rp_filter":       "1\n",
		"/proc/sys/net/ipv4/conf/eth0/rp_filter":      "1\n",
		"/proc/sys/net/ipv6/neigh/eth0/retrans_time":  "100\n",
	} {
		r.Write(name, content)
	}
	r.Write("/etc/secret", "no setting\n")
	r.kinds = hostfile.Kinds(r.Root())
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *recorded) content(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(r.Path(name))
	must(r.t, err)
	return string(data)
}

// applier returns an applier with a journal in a directory of its own.
func (r *recorded) applier(opts apply.Options) (*apply.Applier, *journal.Journal) {
	r.t.Helper()
	j, err := journal.Open(r.t.TempDir(), boot, hostfile.Values())
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, j.Close()) })
	return apply.New(r.kinds, j, opts), j
}

func target(t *testing.T, file string) plan.Target {
	t.Helper()
	at, err := hostfile.Target(file)
	must(t, err)
	return at
}

// change returns a change of the file from its current value.
func change(t *testing.T, kinds apply.Kinds, file string, to plan.Value) plan.Change {
	t.Helper()
	at := target(t, file)
	d := kinds[hostfile.Driver].Opener.Open(apply.Call{})
	defer d.(interface{ Close() error }).Close()
	from, id, err := d.Read(at)
	must(t, err)
	return plan.Change{From: from, Setting: plan.Setting{Target: at, ID: id, Value: to, Owner: "tune", Workload: "w", Why: "test"}}
}

func restored(t *testing.T, a *apply.Applier, want apply.Outcome) {
	t.Helper()
	list := a.Restore(nil, false)
	if len(list) != 1 || list[0].Outcome != want || want != apply.OutcomeFailed && list[0].Err != nil {
		t.Fatalf("want %s: %+v", want, list)
	}
}

func TestWriteAndRestore(t *testing.T) {
	for file, tt := range map[string]struct {
		from, to plan.Value
		back     string // in the file, after the restoration
	}{
		"/proc/sys/vm/stat_interval":                  {"1", "10", "1"},
		"/proc/sys/kernel/printk":                     {"4 4 1 7", "3 4 1 7", "4 4 1 7"},
		"/sys/kernel/mm/transparent_hugepage/enabled": {"madvise", "never", "madvise"},
		"/sys/block/vda/queue/scheduler":              {"none", "bfq", "none"},
	} {
		t.Run(file, func(t *testing.T) {
			r := newRecorded(t)
			a, j := r.applier(apply.Options{})
			c := change(t, r.kinds, file, tt.to)
			if c.From != tt.from {
				t.Errorf("reads as %q, want %q", c.From, tt.from)
			}
			same := c
			same.Value = plan.Value(strings.ReplaceAll(string(tt.from), " ", "\t") + "\n")
			if res := a.Apply([]plan.Change{same})[0]; res.Err != nil || res.Wrote || len(j.Entries()) != 0 {
				t.Errorf("what stands was written: %+v", res)
			}
			if res := a.Apply([]plan.Change{c})[0]; res.Err != nil || !res.Wrote || res.Effective != tt.to {
				t.Fatalf("%+v", res)
			}
			if got := r.content(file); got != string(tt.to) {
				t.Errorf("the file has %q", got)
			}
			list := apply.Compare(r.kinds, j.Entries())
			if len(list) != 1 || list[0].Outcome != apply.OutcomeRestored || list[0].File != r.Path(file) {
				t.Errorf("compared: %+v", list)
			}
			restored(t, a, apply.OutcomeRestored)
			if got := r.content(file); got != tt.back || len(j.Entries()) != 0 {
				t.Errorf("restored to %q, entries %v", got, j.Entries())
			}
		})
	}
}

// TestNotEffective checks that apply returns ErrNotEffective if the kernel changes the written value.
func TestNotEffective(t *testing.T) {
	r := newRecorded(t)
	a, _ := r.applier(apply.Options{Step: func(s apply.Step, _ plan.Target) {
		if s == apply.StepWritten {
			r.Write("/proc/sys/vm/stat_interval", "7\n")
		}
	}})
	res := a.Apply([]plan.Change{change(t, r.kinds, "/proc/sys/vm/stat_interval", "9")})[0]
	if !errors.Is(res.Err, apply.ErrNotEffective) || !res.Wrote || res.Effective != "7" {
		t.Errorf("%+v", res)
	}
	restored(t, a, apply.OutcomeDrifted)
}

// TestPoolInPart checks huge pages, of which the kernel allocates only as many as it has memory for: the undo frees
// these. Another number between the two values is another program's.
func TestPoolInPart(t *testing.T) {
	const file = "/proc/sys/vm/nr_hugepages"
	for name, tt := range map[string]struct {
		leave               bool
		before              string
		to                  plan.Value
		takes, again, other string // the number after the write, after the undo, and by another program
		err                 error
		want                apply.Outcome
		left                string
	}{
		"fewer":              {before: "0", to: "1024", takes: "312", err: apply.ErrPartly, want: apply.OutcomeRestored, left: "0"},
		"none":               {before: "8", to: "1024", takes: "8", err: apply.ErrPartly, want: apply.OutcomeAlready, left: "8"},
		"all":                {before: "8", to: "1024", takes: "1024", want: apply.OutcomeRestored, left: "8"},
		"fewer back":         {before: "1024", to: "8", takes: "8", again: "500", want: apply.OutcomeFailed, left: "500"},
		"fewer back is left": {leave: true, before: "1024", to: "8", takes: "8", again: "500", want: apply.OutcomeLeft, left: "500"},
		"some were lost":     {before: "0", to: "1024", takes: "1024", other: "1000", want: apply.OutcomeDrifted, left: "1000"},
		"shrunk":             {before: "0", to: "1024", takes: "312", other: "100", err: apply.ErrPartly, want: apply.OutcomeDrifted, left: "100"},
		"grown":              {before: "0", to: "1024", takes: "312", other: "500", err: apply.ErrPartly, want: apply.OutcomeDrifted, left: "500"},
		"another's":          {before: "0", to: "1024", takes: "312", other: "2000", err: apply.ErrPartly, want: apply.OutcomeDrifted, left: "2000"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorded(t)
			r.Write(file, tt.before)
			a, j := r.applier(apply.Options{Leave: tt.leave, Step: func(s apply.Step, _ plan.Target) {
				if made := map[apply.Step]string{apply.StepWritten: tt.takes, apply.StepRestored: tt.again}[s]; made != "" {
					r.Write(file, made)
				}
			}})
			res := a.Apply([]plan.Change{change(t, r.kinds, file, tt.to)})[0]
			if !errors.Is(res.Err, tt.err) || tt.err == nil && res.Err != nil || string(res.Effective) != tt.takes {
				t.Errorf("apply: %+v", res)
			}
			if tt.other != "" {
				r.Write(file, tt.other)
			}
			restored(t, a, tt.want)
			kept := tt.want == apply.OutcomeFailed || tt.want == apply.OutcomeDrifted
			if got := r.content(file); got != tt.left || (len(j.Entries()) == 1) != kept {
				t.Errorf("the file has %s, want %s; entries %v", got, tt.left, j.Entries())
			}
		})
	}
}

// TestPoolOnTheWay checks a write of huge pages that a kill interrupted, and an undo that the kernel did in part. The
// number in the file is then Berth's and is restored. A number that only another program can have written is not
// restored. The journal on disk gives the same results.
func TestPoolOnTheWay(t *testing.T) {
	const file = "/proc/sys/vm/nr_hugepages"
	for name, tt := range map[string]struct {
		before, to  string
		step        apply.Step // the step after which the file has leaves
		leaves      string
		kill        bool
		first, then apply.Outcome // outcomes of the first undo, if it is not killed, and of the next
		other, left string
	}{
		"killed as it grows":             {before: "0", to: "1024", step: apply.StepWritten, leaves: "500", kill: true, then: apply.OutcomeRestored, left: "0"},
		"killed as it grows, another's":  {before: "8", to: "1024", step: apply.StepWritten, leaves: "500", kill: true, other: "4", then: apply.OutcomeDrifted, left: "4"},
		"killed as it shrinks":           {before: "1024", to: "8", step: apply.StepWritten, leaves: "500", kill: true, then: apply.OutcomeRestored, left: "1024"},
		"killed as it shrinks back":      {before: "0", to: "1024", step: apply.StepRestored, leaves: "500", kill: true, then: apply.OutcomeRestored, left: "0"},
		"killed as it grows back":        {before: "1024", to: "8", step: apply.StepRestored, leaves: "500", kill: true, then: apply.OutcomeRestored, left: "1024"},
		"a part goes back":               {before: "1024", to: "8", step: apply.StepRestored, leaves: "500", first: apply.OutcomeFailed, then: apply.OutcomeRestored, left: "1024"},
		"a part goes back, then another": {before: "1024", to: "8", step: apply.StepRestored, leaves: "500", first: apply.OutcomeFailed, other: "700", then: apply.OutcomeDrifted, left: "700"},
	} {
		t.Run(name, func(t *testing.T) {
			r, dir, done := newRecorded(t), t.TempDir(), false
			r.Write(file, tt.before)
			j, err := journal.Open(dir, boot, hostfile.Values())
			must(t, err)
			t.Cleanup(func() { must(t, j.Close()) })
			a := apply.New(r.kinds, j, apply.Options{Step: func(s apply.Step, _ plan.Target) {
				if s != tt.step || done {
					return
				}
				done = true
				r.Write(file, tt.leaves)
				if tt.kill {
					panic(name)
				}
			}})
			func() {
				defer func() {
					if killed := recover() != nil; killed != tt.kill {
						t.Errorf("killed: %t", killed)
					}
				}()
				must(t, a.Apply([]plan.Change{change(t, r.kinds, file, plan.Value(tt.to))})[0].Err)
				restored(t, a, tt.first)
			}()
			if tt.other != "" {
				r.Write(file, tt.other)
			}
			kept, err := journal.Load(dir, hostfile.Values())
			must(t, err)
			if list := apply.Compare(r.kinds, kept.Entries); len(list) != 1 || list[0].Outcome != tt.then {
				t.Errorf("compared: %+v, want %s", list, tt.then)
			}
			restored(t, a, tt.then)
			if got := r.content(file); got != tt.left {
				t.Errorf("the file has %s, want %s", got, tt.left)
			}
		})
	}
}

// TestLeave checks that Options.Leave leaves another writer's value alone and forgets its entry.
func TestLeave(t *testing.T) {
	r := newRecorded(t)
	a, j := r.applier(apply.Options{Leave: true})
	must(t, a.Apply([]plan.Change{change(t, r.kinds, "/proc/sys/vm/stat_interval", "9")})[0].Err)
	r.Write("/proc/sys/vm/stat_interval", "7\n")
	restored(t, a, apply.OutcomeLeft)
	if got := r.content("/proc/sys/vm/stat_interval"); got != "7\n" || len(j.Entries()) != 0 {
		t.Errorf("the file has %q; entries %v", got, j.Entries())
	}
}

// TestPolicyWithoutCPUs checks that a frequency policy without an online CPU is not written, and that its original is
// kept until a CPU is back. Some kernels still show the value of such a policy.
func TestPolicyWithoutCPUs(t *testing.T) {
	const policy = "/sys/devices/system/cpu/cpufreq/policy2"
	const file, cpus = policy + "/scaling_governor", policy + "/affected_cpus"
	r := newRecorded(t)
	r.Write(file, "schedutil\n")
	r.Write(cpus, "2 3\n")
	a, j := r.applier(apply.Options{})
	c := change(t, r.kinds, file, "performance")
	r.Write(cpus, "\n")
	if res := a.Apply([]plan.Change{c})[0]; !errors.Is(res.Err, apply.ErrNotInForce) || res.Wrote || len(j.Entries()) > 0 {
		t.Errorf("%+v; entries %v", res, j.Entries())
	}
	r.Write(cpus, "3\n")
	must(t, a.Apply([]plan.Change{c})[0].Err)
	r.Write(cpus, "\n")
	restored(t, a, apply.OutcomeDormant)
	if got := r.content(file); got != "performance" || len(j.Entries()) != 1 {
		t.Errorf("the file has %q; entries %v", got, j.Entries())
	}
	r.Write(cpus, "2\n")
	restored(t, a, apply.OutcomeRestored)
	if got := r.content(file); got != "schedutil" || len(j.Entries()) > 0 {
		t.Errorf("the file has %q; entries %v", got, j.Entries())
	}
}

// TestHeldBeside checks a target that another part of Berth records after the own entry is on disk: it is not written,
// and the own entry is removed. A target that was recorded before belongs to no other part.
func TestHeldBeside(t *testing.T) {
	const file = "/proc/sys/vm/stat_interval"
	held := errors.New("another part has it")
	r := newRecorded(t)
	taken := false
	a, j := r.applier(apply.Options{
		Step: func(s apply.Step, _ plan.Target) { taken = taken || s == apply.StepBegun },
		Held: func(plan.Target) error {
			if taken {
				return held
			}
			return nil
		},
	})
	c := change(t, r.kinds, file, "9")
	if res := a.Apply([]plan.Change{c})[0]; !errors.Is(res.Err, held) || errors.Is(res.Err, apply.ErrJournal) || res.Wrote || r.content(file) != "1\n" || len(j.Entries()) > 0 {
		t.Errorf("apply: %+v; entries %v", res, j.Entries())
	}
	other := change(t, r.kinds, "/proc/sys/kernel/printk", "3 4 1 7")
	if err := a.Claim([]plan.Change{c, other}); !errors.Is(err, held) || errors.Is(err, apply.ErrJournal) || len(j.Entries()) > 0 {
		t.Errorf("claim: %v; entries %v", err, j.Entries())
	}
	must(t, a.Record([]plan.Change{c})) // as for a write of the container runtime
	if res := a.Apply([]plan.Change{c})[0]; res.Err != nil || r.content(file) != "9" {
		t.Errorf("on record before: %+v", res)
	}
}

// TestRefusals checks that a missing file, a read-only file and a file outside the kernel's settings return different
// errors. None is changed or created.
func TestRefusals(t *testing.T) {
	r := newRecorded(t)
	must(t, os.Symlink("../etc", r.Path("sys", "out")))
	must(t, os.Chmod(r.Path("proc/sys/vm/stat_interval"), 0o444))
	for name, tt := range map[string]struct {
		change plan.Change
		want   []error
	}{
		"absent": {
			plan.Change{Setting: plan.Setting{Target: target(t, "/proc/sys/vm/no_such_knob")}},
			[]error{hostfile.ErrAbsent, apply.ErrGone},
		},
		"no such directory": {
			plan.Change{Setting: plan.Setting{Target: target(t, "/sys/class/none/mode")}},
			[]error{hostfile.ErrAbsent, apply.ErrGone},
		},
		"read-only": {change(t, r.kinds, "/proc/sys/vm/stat_interval", "5"), []error{hostfile.ErrReadOnly}},
		"outside": {
			plan.Change{Setting: plan.Setting{Target: plan.Target{Driver: hostfile.Driver, Object: "/etc", Knob: "secret"}}},
			[]error{hostfile.ErrOutside},
		},
		"a control group's": {
			plan.Change{Setting: plan.Setting{Target: plan.Target{Driver: hostfile.Driver, Object: "/sys/fs/cgroup", Knob: "cpu.max"}}},
			[]error{hostfile.ErrOutside},
		},
		"climbing": {
			plan.Change{Setting: plan.Setting{Target: plan.Target{Driver: hostfile.Driver, Object: "/sys/../etc", Knob: "secret"}}},
			[]error{hostfile.ErrOutside},
		},
		"climbing at the end": {
			plan.Change{Setting: plan.Setting{Target: plan.Target{Driver: hostfile.Driver, Object: "/sys/kernel", Knob: "../../etc/secret"}}},
			[]error{hostfile.ErrOutside},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := r.applier(apply.Options{})
			tt.change.Value = "5"
			res := a.Apply([]plan.Change{tt.change})[0]
			if res.Wrote || res.Applied() {
				t.Errorf("%+v", res)
			}
			for _, want := range tt.want {
				if !errors.Is(res.Err, want) {
					t.Errorf("error %v, want %v", res.Err, want)
				}
			}
			if name != "absent" && errors.Is(res.Err, hostfile.ErrAbsent) && errors.Is(res.Err, hostfile.ErrReadOnly) {
				t.Errorf("%v is two things", res.Err)
			}
		})
	}
	linked := plan.Change{Setting: plan.Setting{Target: target(t, "/sys/out/secret"), Value: "5"}}
	a, _ := r.applier(apply.Options{})
	if res := a.Apply([]plan.Change{linked})[0]; res.Err == nil || res.Wrote {
		t.Errorf("through a link: %+v", res)
	}
	if got := r.content("/etc/secret"); got != "no setting\n" {
		t.Errorf("the file outside has %q", got)
	}
	if _, err := hostfile.Target("/etc/secret"); !errors.Is(err, hostfile.ErrOutside) {
		t.Errorf("Target: %v", err)
	}
	if _, err := hostfile.Target("/sys/kernel/../../etc/secret"); !errors.Is(err, hostfile.ErrOutside) {
		t.Errorf("Target: %v", err)
	}
}

// TestIdentity checks that a device which was removed and added again has a new file with the same name. A sysctl is
// the same setting, whatever its inode.
func TestIdentity(t *testing.T) {
	for file, want := range map[string]apply.Outcome{
		"/sys/kernel/mm/transparent_hugepage/enabled": apply.OutcomeGone,
		"/proc/sys/vm/stat_interval":                  apply.OutcomeRestored,
	} {
		t.Run(file, func(t *testing.T) {
			r := newRecorded(t)
			a, _ := r.applier(apply.Options{})
			c := change(t, r.kinds, file, "5")
			if res := a.Apply([]plan.Change{c})[0]; res.Err != nil {
				t.Fatal(res.Err)
			}
			r.Write(file+".new", "5")
			must(t, os.Rename(r.Path(file+".new"), r.Path(file)))
			restored(t, a, want)
		})
	}
}

// TestIdentityOfInterface checks that a recreated network interface has files with the same names and another index.
// The settings for all interfaces, or for new ones, have no index.
func TestIdentityOfInterface(t *testing.T) {
	const index = "/sys/class/net/eth0/ifindex"
	for name, tt := range map[string]struct {
		file string
		then func(r *recorded)
		want apply.Outcome
	}{
		"the same":         {"/proc/sys/net/ipv4/conf/eth0/rp_filter", func(*recorded) {}, apply.OutcomeRestored},
		"made again":       {"/proc/sys/net/ipv4/conf/eth0/rp_filter", func(r *recorded) { r.Write(index, "7\n") }, apply.OutcomeGone},
		"made again, IPv6": {"/proc/sys/net/ipv6/neigh/eth0/retrans_time", func(r *recorded) { r.Write(index, "7\n") }, apply.OutcomeGone},
		"gone":             {"/proc/sys/net/ipv4/conf/eth0/rp_filter", func(r *recorded) { r.Remove("/proc/sys/net/ipv4/conf/eth0") }, apply.OutcomeGone},
		"index unknown":    {"/proc/sys/net/ipv4/conf/eth0/rp_filter", func(r *recorded) { r.Remove("/sys/class/net/eth0") }, apply.OutcomeFailed},
		"all":              {"/proc/sys/net/ipv4/conf/all/rp_filter", func(r *recorded) { r.Write(index, "7\n") }, apply.OutcomeRestored},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorded(t)
			a, j := r.applier(apply.Options{})
			if res := a.Apply([]plan.Change{change(t, r.kinds, tt.file, "2")})[0]; res.Err != nil {
				t.Fatal(res.Err)
			}
			tt.then(r)
			restored(t, a, tt.want)
			if kept := len(j.Entries()) > 0; kept != (tt.want == apply.OutcomeFailed) {
				t.Errorf("entry kept: %t", kept)
			}
		})
	}
}

// TestHiddenTreeForgetsNothing checks that an original is forgotten once its object is gone, and kept while the tree of
// the object cannot be seen.
func TestHiddenTreeForgetsNothing(t *testing.T) {
	for hidden, tt := range map[string]struct {
		file string
		want apply.Outcome
	}{
		"/proc/sys":                      {"/proc/sys/vm/stat_interval", apply.OutcomeFailed},
		"/proc/sys/vm":                   {"/proc/sys/vm/stat_interval", apply.OutcomeFailed},
		"/sys":                           {"/sys/block/vda/queue/scheduler", apply.OutcomeFailed},
		"/sys/block":                     {"/sys/block/vda/queue/scheduler", apply.OutcomeFailed},
		"/sys/block/vda":                 {"/sys/block/vda/queue/scheduler", apply.OutcomeGone},
		"/sys/block/vda/queue/scheduler": {"/sys/block/vda/queue/scheduler", apply.OutcomeGone},
	} {
		t.Run(hidden, func(t *testing.T) {
			r := newRecorded(t)
			a, j := r.applier(apply.Options{})
			c := change(t, r.kinds, tt.file, "5")
			if res := a.Apply([]plan.Change{c})[0]; res.Err != nil {
				t.Fatal(res.Err)
			}
			away := filepath.Join(t.TempDir(), "away")
			must(t, os.Rename(r.Path(hidden), away))
			res := a.Apply([]plan.Change{c})[0]
			unseen := tt.want == apply.OutcomeFailed
			if errors.Is(res.Err, hostfile.ErrHidden) != unseen || errors.Is(res.Err, apply.ErrGone) == unseen || res.Wrote {
				t.Errorf("apply: %+v", res)
			}
			if unseen {
				restored(t, a, tt.want)
			}
			if kept := len(j.Entries()) > 0; kept != unseen {
				t.Fatalf("entry kept: %t", kept)
			}
			must(t, os.Rename(away, r.Path(hidden)))
			if unseen {
				restored(t, a, apply.OutcomeRestored)
			}
		})
	}
}
