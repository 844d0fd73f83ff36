package drift_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/drift"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/hostfile"
	"github.com/berth-project/berth/internal/engine/driver/irq"
	"github.com/berth-project/berth/internal/engine/driver/thread"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// podMounts are the mounts of the agent's pod of deploy/agent. STATE stands for the state directory.
const (
	ownMounts = `100 90 0:50 / / ro,relatime - overlay overlay rw
101 100 0:51 / /proc rw,nosuid - proc proc rw
102 101 0:51 /irq /proc/irq ro,nosuid - proc proc rw
103 101 0:51 /sys /proc/sys ro,nosuid - proc proc rw
104 101 0:52 /null /proc/sched_debug rw,nosuid - tmpfs tmpfs rw
105 100 0:53 / /sys ro,nosuid - sysfs sysfs ro
106 105 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw
`
	podMounts = ownMounts + "120 100 8:1 /var/lib/berth STATE rw,relatime - ext4 /dev/vda1 rw\n"
)

// inPod makes the host's agent the agent of a pod with these mounts, which shares these namespaces with the host.
func (h *host) inPod(mounts string, spaces drift.Spaces) {
	h.t.Helper()
	h.plain.Write("proc/self/mountinfo", strings.ReplaceAll(mounts, "STATE", h.state))
	*h.node.Config.Cluster.Enabled = true
	h.write("sys/fs/cgroup/cgroup.controllers", "cpu cpuset")
	groups, err := cgroup.Open(h.root)
	if mounts != "" {
		must(h.t, err)
	}
	h.watch = drift.New(drift.Options{
		Root: h.root, Boot: "boot", Boottime: func() time.Duration { return h.up }, Groups: groups, Spaces: spaces, Now: time.Now,
		Keep: func(tuner.Applied) error { h.t.Error("a keeper was started in a cluster"); return nil },
	})
	h.run()
}

// record puts a committed profile on record.
func (h *host) record(args *tuner.Arguments, settings ...tuner.Setting) {
	h.t.Helper()
	a := tuner.Applied{Boot: "boot", Phase: tuner.Committed, Since: time.Now(), Settings: settings, Args: args}
	a.Profile.Name = "quick"
	text, err := json.Marshal(a)
	must(h.t, err)
	file := tuner.RecordFile(filepath.Join(h.state, tuner.Subdir))
	must(h.t, os.MkdirAll(filepath.Dir(file), 0o700))
	must(h.t, os.WriteFile(file, text, 0o600))
}

// report returns the report of the last comparison.
func (h *host) report() (r drift.Report) {
	h.t.Helper()
	must(h.t, h.outcome().Decode("hostProfile", &r))
	return r
}

// TestCluster checks that an agent in a pod reports drift as on a host, and neither writes nor locks anything: each file
// of the state directory, and its times, are as before.
func TestCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.apply(0)
		h.set(3, "powersave")
		h.inPod(podMounts, drift.Spaces{})
		before := times(t, h.state)
		h.want(h.minute(), 1, 1, "host profile quick", "policy3 is drift")
		h.says("policy3 is drift")
		h.inForce(1)
		h.want(h.minute(), 0, 1)
		h.set(3, "performance")
		h.want(h.minute(), 0, 0)
		h.says("host profile quick: the host has it")
		if now := times(t, h.state); now != before {
			t.Errorf("the state directory was %s, is %s", before, now)
		}
		h.tuner(func(u *tuner.Tuner) { u.Rollback() })
		h.want(h.minute(), 0, none)
	})
}

// TestClusterLeavesADueRecord checks that an agent in a pod starts no keeper for a profile whose deadline has passed.
func TestClusterLeavesADueRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.apply(time.Minute)
		h.up = 2 * time.Hour
		h.inPod(podMounts, drift.Spaces{})
		h.want(h.minute(), 0, none)
		if p := h.watch.Outcome(time.Time{}).Problems; len(p) > 0 {
			t.Errorf("problems: %q", p)
		}
	})
}

// times lists the files below a directory with their sizes and times.
func times(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	must(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all.WriteString(name + " " + info.ModTime().String() + "\n")
		}
		return err
	}))
	return all.String()
}

// TestForeignStateDirectory checks that the agent does not take a state directory of its pod for the host's: it says
// that the profile is unknown.
func TestForeignStateDirectory(t *testing.T) {
	for name, test := range map[string]struct {
		mount   string // of the state directory
		unknown bool
	}{
		"not mounted": {"", true},
		"emptyDir":    {"8:1 /var/lib/kubelet/pods/17/volumes/kubernetes.io~empty-dir/state STATE rw - ext4 /dev/vda1 rw", true},
		"hostPath":    {"8:1 /var/lib/berth STATE rw - ext4 /dev/vda1 rw", false},
		"own disk":    {"8:2 / STATE rw - xfs /dev/vdb rw", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.apply(0)
				mounts := ownMounts
				if test.mount != "" {
					mounts += "107 100 " + test.mount + "\n"
				}
				h.inPod(mounts, drift.Spaces{})
				drifted := 0
				if test.unknown {
					drifted = none
				}
				h.want(h.minute(), 0, drifted)
				p := h.watch.Outcome(time.Time{}).Problems
				if is := len(p) == 1 && strings.Contains(p[0], h.state+"/tune: not a directory of the host"); is != test.unknown {
					t.Errorf("problems: %q", p)
				}
			})
		})
	}
}

// TestSeenFromAPod checks for each kind of setting what the agent's pod has to share with the host to see it. Then the
// setting, which the host does not have, is drift. Otherwise it is reported as not seen, with the reason.
func TestSeenFromAPod(t *testing.T) {
	sysctl := func(key string) tuner.Setting {
		return fileSetting("sysctl."+key, "", "/proc/sys/"+strings.ReplaceAll(key, ".", "/"))
	}
	const db = "/sys/fs/cgroup/db.service/"
	none, all := drift.Spaces{}, drift.Spaces{Network: true, IPC: true, Names: true, PIDs: true, Users: true}
	for _, test := range []struct {
		setting tuner.Setting
		needs   drift.Spaces
		why     string
	}{
		{sysctl("vm.swappiness"), none, ""},
		{sysctl("kernel.sched_autogroup_enabled"), none, ""},
		{sysctl("fs.file-max"), none, ""},
		{fileSetting("cpu.governor", "policy3", governor(3)), none, ""},
		{fileSetting("thp.enabled", "", "/sys/kernel/mm/transparent_hugepage/enabled"), none, ""},
		{tuner.Setting{Knob: "irq.affinity", Instance: "25", File: "/proc/irq/25/smp_affinity_list", Target: plan.Target{Driver: irq.Driver}}, none, ""},
		{tuner.Setting{Knob: tune.UnitMems, Instance: "db.service", File: db + "cpuset.mems", Target: cgroupfile.UnitTarget("db.service", cgroup.KnobMems)}, none, ""},
		{tuner.Setting{Knob: tune.UnitPolicy, Instance: "db.service", File: db + "cgroup.threads", Target: thread.PolicyTarget("db.service", "batch")}, drift.Spaces{PIDs: true}, "hostPID"},
		{tuner.Setting{Knob: tune.UnitSlice, Instance: "db.service", File: db + "cgroup.threads", Target: thread.SliceTarget("db.service", "3ms")}, drift.Spaces{PIDs: true}, "hostPID"},
		{sysctl("net.core.somaxconn"), drift.Spaces{Network: true}, "network of its own"},
		{fileSetting("net.rps", "eth0/rx-0", "/sys/class/net/eth0/queues/rx-0/rps_cpus"), drift.Spaces{Network: true}, "network of its own"},
		{sysctl("kernel.shmmax"), drift.Spaces{IPC: true}, "IPC namespace"},
		{sysctl("kernel.sem"), drift.Spaces{IPC: true}, "IPC namespace"},
		{sysctl("kernel.msgmni"), drift.Spaces{IPC: true}, "IPC namespace"},
		{sysctl("kernel.auto_msgmni"), drift.Spaces{IPC: true}, "IPC namespace"},
		{sysctl("fs.mqueue.msg_max"), drift.Spaces{IPC: true}, "IPC namespace"},
		{sysctl("kernel.hostname"), drift.Spaces{Names: true}, "names of its own"},
		{sysctl("kernel.domainname"), drift.Spaces{Names: true}, "names of its own"},
		{sysctl("kernel.pid_max"), drift.Spaces{PIDs: true}, "process ids"},
		{sysctl("vm.memfd_noexec"), drift.Spaces{PIDs: true}, "process ids"},
		{sysctl("user.max_user_namespaces"), drift.Spaces{Users: true}, "user namespace"},
	} {
		t.Run(test.setting.Knob, func(t *testing.T) {
			if seen, why := seen(t, podMounts, test.needs, nil, test.setting); !seen {
				t.Errorf("not seen: %s", why)
			}
			others := all
			others.Network, others.IPC = others.Network && !test.needs.Network, others.IPC && !test.needs.IPC
			others.Names, others.PIDs, others.Users = others.Names && !test.needs.Names, others.PIDs && !test.needs.PIDs, others.Users && !test.needs.Users
			if seen, why := seen(t, podMounts, others, nil, test.setting); seen != (test.needs == none) || !strings.Contains(why, test.why) {
				t.Errorf("without it: seen is %t, %q; want %q", seen, why, test.why)
			}
		})
	}
	masked := podMounts + "107 103 0:52 /null /proc/sys/vm/swappiness rw - tmpfs tmpfs rw\n"
	debugfs := podMounts + "107 105 0:7 / /sys/kernel/debug rw - debugfs debugfs rw\n"
	binfmt := podMounts + "107 103 0:40 / /proc/sys/fs/binfmt_misc rw - binfmt_misc binfmt_misc rw\n"
	slice := fileSetting("fair.slice", "", "/sys/kernel/debug/sched/base_slice_ns")
	args := func(stage tuner.Stage) *tuner.Arguments {
		return &tuner.Arguments{Want: []string{"quiet"}, Stage: stage, Boot: "earlier"}
	}
	for name, test := range map[string]struct {
		mounts   string
		args     *tuner.Arguments
		settings []tuner.Setting
		why      string
	}{
		"a covered file":            {masked, nil, []tuner.Setting{sysctl("vm.swappiness")}, "the pod has no proc there"},
		"no debugfs":                {podMounts, nil, []tuner.Setting{slice}, "the pod has no debugfs there"},
		"debugfs":                   {debugfs, nil, []tuner.Setting{slice}, ""},
		"no binfmt_misc":            {podMounts, nil, []tuner.Setting{sysctl("fs.binfmt_misc.status")}, "the pod has no binfmt_misc there"},
		"binfmt_misc":               {binfmt, nil, []tuner.Setting{sysctl("fs.binfmt_misc.status")}, ""},
		"unknown mounts":            {"", nil, []tuner.Setting{sysctl("vm.swappiness")}, "the pod has no proc there"},
		"boot arguments":            {podMounts, args(tuner.Permanent), nil, ""},
		"boot arguments on a trial": {podMounts, args(tuner.OnTrial), nil, "boot loader"},
	} {
		t.Run(name, func(t *testing.T) {
			if seen, why := seen(t, test.mounts, all, test.args, test.settings...); seen != (test.why == "") || !strings.Contains(why, test.why) {
				t.Errorf("seen is %t, %q; want %q", seen, why, test.why)
			}
		})
	}
}

// fileSetting returns a setting of a file, whose value the host does not have.
func fileSetting(knob, instance, file string) tuner.Setting {
	return tuner.Setting{Knob: knob, Instance: instance, File: file, Want: "another", Target: plan.Target{
		Driver: hostfile.Driver, Object: filepath.Dir(file), Knob: filepath.Base(file),
	}}
}

// seen reports whether a pod sees the one setting of a profile, which is drift then, or why it does not.
func seen(t *testing.T, mounts string, spaces drift.Spaces, args *tuner.Arguments, settings ...tuner.Setting) (is bool, why string) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.write("sys/fs/cgroup/db.service/cgroup.threads", "17")
		h.write("proc/17/task/17/stat", "17 (db) S"+strings.Repeat(" 0", 40)) // policy other
		h.write("proc/17/sched", "se.slice : 2800000")
		h.write("sys/class/net/eth0/device/vendor", "0x1af4")
		h.write("proc/cmdline", "root=/dev/vda1")
		for i := range settings {
			settings[i].Want = "another"
			if !strings.HasSuffix(settings[i].File, "/cgroup.threads") {
				h.write(settings[i].File, "1")
			}
		}
		h.record(args, settings...)
		h.inPod(mounts, spaces)
		h.minute()
		r := h.report()
		if len(r.Drift)+len(r.Unseen) != 1 {
			t.Fatalf("%+v", r)
		}
		is = len(r.Drift) == 1
		if !is {
			why = r.Unseen[0].Why
			h.says("as far as the agent's pod shows it; not seen from the pod: " + strings.TrimSpace(r.Unseen[0].Knob+" "+r.Unseen[0].Instance) + " (" + why + ")")
		}
	})
	return is, why
}

// TestUnseenIsBrief checks that status names three settings of each reason that the pod does not show, after the drift.
func TestUnseenIsBrief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		var settings []tuner.Setting
		for _, name := range []string{"shmmax", "shmall", "shmmni", "msgmax", "sem"} {
			settings = append(settings, fileSetting("sysctl.kernel."+name, "", "/proc/sys/kernel/"+name))
		}
		h.record(nil, append(settings, fileSetting("sysctl.kernel.hostname", "", "/proc/sys/kernel/hostname"), fileSetting("cpu.governor", "policy3", governor(3)))...)
		h.inPod(podMounts, drift.Spaces{})
		h.want(h.minute(), 1, 1, "cpu.governor policy3 is drift")
		h.says(`want "another": berth tune verify; not seen from the pod: sysctl.kernel.shmmax, sysctl.kernel.shmall, sysctl.kernel.shmmni, 2 more ` +
			"(the pod has an IPC namespace of its own); sysctl.kernel.hostname (the pod has names of its own)")
		if view, err := h.watch.Describe().Reader.Node(capability.Reported{Alive: true, Node: h.outcome()}); err != nil || len(view.Lines) != 1 {
			t.Errorf("%q, %v", view.Lines, err)
		}
	})
}
