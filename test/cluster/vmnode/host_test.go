package vmnode

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/kernel"
	"github.com/berth-project/berth/test/patience"
)

// host is a machine with systemd and no Kubernetes.
type host struct {
	*Node
	t *testing.T
	// before is the output of had before any profile.
	before string
}

// berth is the path of the program.
const berth = "/usr/bin/berth"

// work is a service that a profile changes.
const work = `[Service]
ExecStart=/usr/bin/sleep infinity
[Install]
WantedBy=multi-user.target
`

// poll is a service in a slice of its own, which a profile turns into a partition.
const poll = `[Service]
ExecStart=/usr/bin/sleep infinity
Slice=poll.slice
[Install]
WantedBy=multi-user.target
`

// hostProfile has a setting of each kind that a boot ends.
const hostProfile = `apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: host}
spec:
  cpus: {few: {cpus: "0-1"}, alone: {cpus: "3", partition: isolated}}
  settings:
    fair.slice: 4ms
    irq.default: few
    sysctl.vm.swappiness: 7
    thp.enabled: always
    workqueue.cpus: few
  units:
  - {unit: work.service, cpus: few, mems: local, policy: batch}
  - {unit: poll.slice, cpus: alone}
  - {unit: poll.service, policy: "fifo:10"}
`

const interrupts = `apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: interrupts}
spec:
  settings: {irq.affinity: {value: "0-1", optional: true}}
`

// had is a script that prints the host's values of all that the profile changes.
const had = `cd /sys
cat /proc/sys/vm/swappiness /proc/irq/default_smp_affinity devices/virtual/workqueue/cpumask
sed 's/.*\[//; s/\].*//' kernel/mm/transparent_hugepage/enabled
cat kernel/debug/sched/base_slice_ns
systemctl show -P AllowedCPUs work; systemctl show -P AllowedMemoryNodes work
cat fs/cgroup/poll.slice/cpuset.cpus.partition
for unit in work poll; do chrt -p $(systemctl show -P MainPID $unit) | head -1 | sed 's/.*: //'; done`

const profile = "7\n3\n3\nalways\n4000000\n0-1\n0\nisolated\nSCHED_BATCH\nSCHED_FIFO"

// TestHostOfSystemd takes a systemd host through the life of its agent and of a profile: install-systemd, an expired
// deadline, a commit, a power cut, and the restoration. Other tests use fakes of systemd; this test uses systemd
// itself.
func TestHostOfSystemd(t *testing.T) {
	h := newHost(t, Options{
		Name: "host", IP: "198.18.7.7",
		Machine: kernel.Machine{Name: "host", Sockets: 2, Dies: 1, Cores: 1, Threads: 2, Nodes: 2, MiB: 1536},
	})
	h.write("/etc/systemd/system/work.service", work)
	h.write("/etc/systemd/system/poll.service", poll)
	h.write("/etc/berth/profiles/host.yaml", hostProfile)
	h.write("/etc/berth/profiles/interrupts.yaml", interrupts)
	h.sh(t, "systemctl enable --now work poll")
	h.before = h.sh(t, had)
	t.Log("in the beginning:\n" + h.before)
	t.Run("Install", h.install)
	t.Run("Killed", h.killed)
	t.Run("Reload", h.reload)
	t.Run("Deadline", h.deadline)
	t.Run("PowerCut", h.cut)
	t.Run("PowerCutInCommitted", h.cutAgain)
	t.Run("PowerCutWithAStoppedUnit", h.cutStopped)
	t.Run("Rollback", h.rollback)
	t.Run("Restarted", h.restartedUnits)
	t.Run("Overruled", h.overruled)
	t.Run("Slain", h.slain)
	t.Run("PowerCutInApply", h.cutBefore)
	t.Run("Irqbalance", h.balance)
	t.Run("Remove", h.remove)
}

// newHost boots a host with the program, and with the units of the packages, which are not enabled.
func newHost(t *testing.T, o Options) *host {
	t.Helper()
	root := sources(t)
	o.Programs.Berth = filepath.Join(t.TempDir(), "berth")
	program(t, root, o.Programs.Berth, "-s -w")
	h := bare(t, o)
	h.sh(t, "install -m 0755 /opt/berth/bin/berth "+berth)
	for _, name := range []string{tuneUnit, aheadUnit} {
		unit, err := os.ReadFile(filepath.Join(root, "deploy/package", name))
		if err != nil {
			t.Fatal(err)
		}
		h.write("/usr/lib/systemd/system/"+name, string(unit))
	}
	return h
}

// sources returns the source tree. It skips the test where no host may boot.
func sources(t *testing.T) string {
	t.Helper()
	if os.Getenv("BERTH_VM_MATRIX") != "all" {
		t.Skip("boots a virtual machine; runs in: make verify-tour")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if err := Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// program builds the program for a host.
func program(t *testing.T, root, file, ldflags string) {
	t.Helper()
	makes(t, root, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64"}, "go", "build", "-ldflags="+ldflags, "-o", file, "./cmd/berth")
}

// makes runs a program of this machine in a directory, with more environment variables.
func makes(t *testing.T, dir string, environ []string, argv ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

// bare boots a host without any part of Berth, except the programs and files of the options.
func bare(t *testing.T, o Options) *host {
	t.Helper()
	o.Dir = t.TempDir()
	n, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.tails())
		}
		if err := n.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return &host{Node: n, t: t}
}

// sh runs a script that must succeed, and returns its output.
func (h *host) sh(t *testing.T, script string) string {
	t.Helper()
	out, err := h.Run(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (h *host) write(name, text string) {
	h.t.Helper()
	argv := []string{"/bin/sh", "-c", "mkdir -p $(dirname " + name + ") && cat >" + name}
	if r, err := h.Exec(h.t.Context(), Command{Argv: argv, Stdin: []byte(text)}); err != nil || r.Code != 0 {
		h.t.Fatalf("write %s: %v %s", name, err, r.Stderr)
	}
}

// fails runs a command that must end with this exit code, and returns its standard error.
func (h *host) fails(t *testing.T, code int, argv ...string) string {
	t.Helper()
	r, err := h.Exec(t.Context(), Command{Argv: argv})
	if err != nil || r.Code != code {
		t.Fatalf("%s: exit code %d, %v, want %d: %s", argv, r.Code, err, code, r.Stderr)
	}
	return string(r.Stderr)
}

func (h *host) expect(t *testing.T, when, script, want string) {
	t.Helper()
	if got := h.sh(t, script); got != want {
		t.Fatalf("%s: %q, want %q", when, got, want)
	}
}

func (h *host) eventually(t *testing.T, what, script, want string) {
	t.Helper()
	if err := patience.Until(t.Context(), time.Second, func() string {
		if got, err := h.Run(t.Context(), script); err != nil || strings.TrimSpace(got) != want {
			return what + ": " + got
		}
		return ""
	}); err != nil {
		t.Fatal(err, h.tails())
	}
}

// answers waits until the agent answers.
func (h *host) answers(t *testing.T) {
	t.Helper()
	h.eventually(t, "the agent answers", berth+" status >/dev/null && echo yes", "yes")
}

const (
	agent = "systemctl is-active berth-agent; systemctl is-enabled berth-agent"
	runs  = "active\nenabled"
)

// install makes systemd run the agent, but refuses a program that another user could replace. A second call restarts
// the agent.
func (h *host) install(t *testing.T) {
	h.sh(t, "chown 1000 "+berth)
	if said := h.fails(t, 2, berth, "install-systemd"); !strings.Contains(said, "belongs to user 1000") {
		t.Error(said)
	}
	h.sh(t, "chown 0 "+berth+"; test ! -e /etc/systemd/system/berth-agent.service")
	const pid = "systemctl show -P MainPID berth-agent"
	h.sh(t, berth+" install-systemd")
	h.expect(t, "installed", agent, runs)
	first := h.sh(t, pid)
	h.sh(t, berth+" install-systemd")
	h.expect(t, "installed again", agent, runs)
	if now := h.sh(t, pid); now == first || now == "0" {
		t.Errorf("the agent was process %s and is %s", first, now)
	}
	h.answers(t)
}

// burner is a service that rests for a while and then needs more than its limit.
const burner = `[Service]
ExecStart=/bin/sh -c 'while :; do sleep 5; timeout 5 sh -c "while :; do :; done"; done'
CPUQuota=20%
`

const burning = `apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: burner, annotations: {koordinator.sh/cpuBurst: '{"policy": "auto"}'}}
spec: {systemdUnit: burner.service}
`

// files is the administrator's directory of workloads.
const files = "/etc/berth/workloads"

const pinned = `apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: work, annotations: {cpuset-scheduler: "true"}}
spec: {systemdUnit: work.service, cpu: {limit: "1"}}
`

// killed kills the agent while a quota is raised, and prevents its restart. The unit must make systemd restore the
// quota, and the CPUs of a pinned service must stay.
func (h *host) killed(t *testing.T) {
	const (
		quota = "cat /sys/fs/cgroup/system.slice/burner.service/cpu.max"
		cpus  = "systemctl show -P AllowedCPUs work"
		unit  = "systemctl show -P ActiveState berth-agent; systemctl show -P ExecStopPost berth-agent | grep -c 'code=exited ; status=0'"
		once  = "/etc/systemd/system/berth-agent.service.d"
	)
	h.write(once+"/once.conf", "[Service]\nRestart=no\n")
	h.write("/etc/systemd/system/burner.service", burner)
	h.write(files+"/burner.yaml", burning)
	h.write(files+"/work.yaml", pinned)
	h.sh(t, "systemctl daemon-reload && systemctl start burner")
	h.expect(t, "in the beginning", quota, "20000 100000")
	h.eventually(t, "pinned", cpus+" | grep -c '^[0-9]$'", "1")
	has := h.sh(t, cpus)
	said := h.sh(t, "for i in $(seq 6000); do q=$("+quota+"); case $q in 20000*) sleep 0.02;; *) systemctl kill -s KILL berth-agent; echo $q; break;; esac; done")
	if strings.TrimSpace(said) == "" {
		t.Fatal("the quota was never raised")
	}
	h.eventually(t, "the unit after "+said, unit, "failed\n2")
	h.expect(t, "the quota is back", quota, "20000 100000")
	h.expect(t, "the CPUs stay", cpus, has)
	h.sh(t, "rm -r "+once+" && rm "+files+"/burner.yaml && systemctl daemon-reload && systemctl start berth-agent && systemctl stop burner")
	h.answers(t)
	h.expect(t, "the CPUs stay under the next one", cpus, has)
	h.sh(t, "rm "+files+"/work.yaml")
	h.eventually(t, "the CPUs are back", cpus, "")
	h.sh(t, "systemctl restart work") // a group with processes keeps an explicit list of all CPUs
}

// reload makes systemd reload its units five times while a service is pinned, and once after a rollback. The service's
// thread must stay on its CPU, and after the rollback on all CPUs.
func (h *host) reload(t *testing.T) {
	const (
		again = "systemctl daemon-reload && sleep 3"
		mask  = "sed -n 's/^Cpus_allowed_list:\t//p' /proc/$(systemctl show -P MainPID work)/status"
		all   = "0-3"
	)
	h.expect(t, "in the beginning", mask, all)
	h.write(files+"/work.yaml", pinned)
	h.eventually(t, "pinned", mask+" | grep -c '^[0-9]$'", "1")
	has := h.sh(t, mask)
	for range 5 {
		h.sh(t, again)
		h.expect(t, "after a daemon-reload", mask, has)
	}
	h.sh(t, "systemctl stop berth-agent")
	h.expect(t, "without the agent", mask, has)
	h.sh(t, "rm "+files+"/work.yaml; "+berth+" rollback")
	h.expect(t, "after the rollback", mask, all)
	h.sh(t, again)
	h.expect(t, "after a daemon-reload", mask, all)
	h.sh(t, "systemctl restart work && systemctl start berth-agent")
	h.answers(t)
}

// deadline applies a profile that nobody commits. A service of systemd must undo it at the deadline.
func (h *host) deadline(t *testing.T) {
	h.sh(t, berth+" tune apply host --confirm 1m")
	h.expect(t, "applied", had, profile)
	h.expect(t, "keeper", "systemctl list-units --plain --no-legend 'berth-tune-*.service' | wc -l", "1")
	h.eventually(t, "undone at the deadline", had, h.before)
	h.eventually(t, "the keeper ended", "systemctl list-units --plain --no-legend 'berth-tune-*.service' | wc -l", "0")
}

// tuneUnit is the packages' unit that applies the committed profile at each boot. With it, aheadUnit is enabled, which
// gives units their lists before they start.
const (
	tuneUnit  = "berth-tune.service"
	aheadUnit = "berth-ahead.service"
)

// earlier is a script that records the host as the unit finds it.
const earlier = "(" + had + "\n) >/run/earlier\n" + berth + " tune verify >/dev/null; echo verify: $? >>/run/earlier\n"

// cut cuts the power after a profile was committed. The next boot must find the kernel's defaults, except the lists of
// units, and the unit of the packages must apply the profile, with the agent beside it.
func (h *host) cut(t *testing.T) {
	h.write("/etc/berth/earlier", earlier)
	h.write("/etc/systemd/system/"+tuneUnit+".d/earlier.conf", "[Service]\nExecStartPre=+/bin/sh /etc/berth/earlier\n")
	h.sh(t, "systemctl daemon-reload && systemctl enable berth-tune")
	h.sh(t, berth+" tune apply host --confirm 1h && "+berth+" tune commit")
	h.expect(t, "committed", had, profile)
	h.sh(t, berth+" tune verify; sync")
	h.reboot(t)
	h.repeated(t)
	const lists = 5 // the first line of had with a list
	found := strings.Split(h.before, "\n")
	found[lists], found[lists+1] = "0-1", "0"
	found = slices.DeleteFunc(found, func(line string) bool { return line == "member" }) // the slice may have got its file
	t.Log(h.sh(t, "journalctl -b -u "+aheadUnit+" --no-pager"))
	h.expect(t, "the unit found", "grep -vx member /run/earlier", strings.Join(append(found, "verify: 4"), "\n"))
	h.expect(t, "the unit before it", "systemctl show -P Result "+aheadUnit+"; systemctl show -P ActiveState "+aheadUnit, "success\nactive")
	h.eventually(t, "the agent runs again", agent, runs)
}

// reboot cuts the power and boots.
func (h *host) reboot(t *testing.T) {
	t.Helper()
	if err := h.Cut(); err != nil {
		t.Fatal(err)
	}
	if err := h.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.eventually(t, "the boot has ended", "systemctl is-active multi-user.target", "active")
}

// ran waits until the unit of the packages has ended, which must succeed in one attempt.
func (h *host) ran(t *testing.T) {
	t.Helper()
	const state = "for p in ActiveState SubState Result ExecMainStatus NRestarts; do systemctl show -P $p berth-tune; done"
	h.eventually(t, "the unit ran", "systemctl show -P ActiveState berth-tune | grep -v activating", "active")
	h.expect(t, "the unit", state, "active\nexited\nsuccess\n0\n0")
}

// repeated waits until the unit of the packages has applied the committed profile.
func (h *host) repeated(t *testing.T) {
	t.Helper()
	h.ran(t)
	h.expect(t, "after the boot", had, profile)
	t.Log(h.sh(t, berth+" tune verify"))
}

// cutStopped cuts the power after a service of the committed profile was disabled and stopped. The unit of the packages
// must apply the rest of the profile, and succeed. The service waits until it runs: the agent then gives it its policy.
// In the next boot it starts with its lists again.
func (h *host) cutStopped(t *testing.T) {
	const policy = "chrt -p $(systemctl show -P MainPID work) | head -1 | sed 's/.*: //'"
	h.sh(t, "systemctl disable --now work; sync")
	h.reboot(t)
	h.ran(t)
	t.Log(h.sh(t, "journalctl -b -u "+aheadUnit+" -u "+tuneUnit+" --no-pager"))
	rest := strings.Replace(had, "for unit in work poll", "for unit in poll", 1)
	h.expect(t, "after the boot", rest, strings.Replace(profile, "SCHED_BATCH\n", "", 1))
	found := h.sh(t, berth+" tune verify")
	t.Log(found)
	if !regexp.MustCompile(`(?m)^unit.policy work.service +batch +- +dormant`).MatchString(found) {
		t.Error("verify does not say that the policy waits")
	}
	h.eventually(t, "the agent names it", berth+" status | tr -s ' \\n' ' ' | grep -c 'does not run: .*unit.policy work.service' || true", "1")
	h.sh(t, "systemctl start work")
	h.expect(t, "started", "systemctl show -P AllowedCPUs work; systemctl show -P AllowedMemoryNodes work", "0-1\n0")
	h.eventually(t, "the agent sets it", policy, "SCHED_BATCH")
	h.sh(t, berth+" tune verify; systemctl enable work; sync")
	h.reboot(t)
	h.repeated(t)
}

func (h *host) rollback(t *testing.T) {
	h.sh(t, berth+" tune rollback")
	h.expect(t, "rolled back", had, h.before)
}

// balance checks that irqbalance, run as its package does, leaves the interrupts of a profile alone until the rollback.
// It must stay the same process throughout.
func (h *host) balance(t *testing.T) {
	const (
		pid  = "systemctl show -P MainPID irqbalance"
		left = "printf setup | socat -t 10 - UNIX-CONNECT:$(echo /run/irqbalance/*.sock) | grep -o 'IRQ [0-9]* LOAD' | wc -l"
	)
	h.sh(t, "systemctl unmask irqbalance && systemctl start irqbalance")
	h.eventually(t, "irqbalance answers", "printf setup | socat -t 10 - UNIX-CONNECT:$(echo /run/irqbalance/*.sock) | grep -c SLEEP", "1")
	h.expect(t, "in the beginning irqbalance leaves none alone", left, "0")
	first := h.sh(t, pid)
	if said := h.sh(t, berth+" tune apply interrupts --confirm 1h"); !strings.Contains(said, "ban of irqbalance") {
		t.Errorf("the apply says nothing of irqbalance: %s", said)
	}
	if n := h.sh(t, left); n == "0" {
		t.Error("irqbalance leaves no interrupt alone")
	}
	// An interrupt that does not fire stays where irqbalance had put it, until it fires: irqbalance ignores it, and it
	// is no drift.
	h.expect(t, "nothing moves them back", berth+" tune verify -o json | grep -c '\"drift\"' || true", "0")
	h.sh(t, berth+" tune rollback")
	h.expect(t, "after the rollback irqbalance leaves none alone", left, "0")
	h.expect(t, "irqbalance is the same process", pid, first)
	h.sh(t, "systemctl stop irqbalance")
}

// remove removes the agent, and must leave no unit.
func (h *host) remove(t *testing.T) {
	h.sh(t, berth+" install-systemd --remove")
	h.expect(t, "removed", "systemctl show -P LoadState berth-agent; systemctl is-active berth-agent || true", "not-found\ninactive")
	h.expect(t, "files of the unit", "find /etc/systemd/system -name 'berth-agent*'", "")
}
