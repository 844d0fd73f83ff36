package vmnode

import (
	"strings"
	"testing"
)

// inner is a service in the slice of the system, so its partition is below another group.
const inner = `[Service]
ExecStart=/usr/bin/sleep infinity
`

// endingProfile has what ends with a unit: policies, a slice and partitions.
const endingProfile = `apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: ending}
spec:
  cpus: {alone: {cpus: "3", partition: isolated}, inner: {cpus: "1", partition: root}}
  units:
  - {unit: work.service, policy: batch, slice: 5ms}
  - {unit: poll.slice, cpus: alone}
  - {unit: poll.service, policy: "rr:5"}
  - {unit: inner.service, cpus: inner}
`

const listedProfile = `apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: listed}
spec:
  cpus: {few: {cpus: "0-1"}}
  units: [{unit: work.service, cpus: few}]
`

// restartedUnits restarts the units of a committed profile. The agent, in the unit of the packages, must set again what
// ended: policies, also of real-time threads, the slice, and the partition at the top. A partition below another group
// needs more than the unit permits: the agent and verify must name it, and a command of root must set it.
func (h *host) restartedUnits(t *testing.T) {
	const ended = `for unit in work poll; do chrt -p $(systemctl show -P MainPID $unit) | sed 's/.*: //'; done
cut -d' ' -f1,2 /sys/fs/cgroup/poll.slice/cpuset.cpus.partition /sys/fs/cgroup/system.slice/inner.service/cpuset.cpus.partition`
	const all = "SCHED_BATCH\n0\n5000000\nSCHED_RR\n5\nisolated\nroot"
	const ignored = "cpus.partition inner.service is ignored"
	h.write("/etc/systemd/system/inner.service", inner)
	h.write("/etc/berth/profiles/ending.yaml", endingProfile)
	// After a rollback the group of a running unit has a list of all CPUs: the kernel takes no empty list of a group with
	// processes. A partition beside it needs CPUs that no such list has.
	h.sh(t, "systemctl daemon-reload && systemctl restart work && systemctl start inner")
	h.sh(t, berth+" tune apply ending --confirm 1h && "+berth+" tune commit && "+berth+" tune verify")
	h.expect(t, "committed", ended, all)
	h.sh(t, "systemctl restart poll.slice poll work inner")
	if now := h.sh(t, ended); !strings.HasPrefix(now, "SCHED_OTHER") || !strings.HasSuffix(now, "member\nmember") {
		t.Errorf("a restart leaves %q", now)
	}
	h.eventually(t, "the agent sets it again", ended, all+" invalid")
	if said := h.fails(t, 4, berth, "tune", "verify"); !strings.Contains(said, ignored) || strings.Contains(said, "unit.") || strings.Contains(said, "poll") {
		t.Errorf("verify says %q", said)
	}
	h.eventually(t, "the agent names it", berth+" status | grep -o '"+ignored+"'", ignored)
	h.sh(t, berth+" tune rollback && "+berth+" tune apply ending --confirm 1h && "+berth+" tune verify")
	h.expect(t, "applied by root", ended, all)
	h.sh(t, berth+" tune rollback && systemctl stop inner")
}

// overruled has an administrator's file with another list than the profile, which systemd reads after Berth's. systemd
// must take it after a daemon-reload. What plan, apply, commit and verify say must name the file.
func (h *host) overruled(t *testing.T) {
	const (
		cpus   = "systemctl show -P AllowedCPUs work; cat /sys/fs/cgroup/system.slice/work.service/cpuset.cpus 2>/dev/null || true"
		edited = "/etc/systemd/system/work.service.d/override.conf"
		set    = "/etc/systemd/system.control/work.service.d/50-AllowedCPUs.conf"
	)
	h.write("/etc/berth/profiles/listed.yaml", listedProfile)
	says := func(file, command string) {
		t.Helper()
		said := h.sh(t, berth+" tune "+command+" 2>&1")
		if !strings.Contains(strings.Join(strings.Fields(said), ""), file) { // lines are wrapped
			t.Errorf("%s does not name %s: %s", command, file, said)
		}
	}
	for _, by := range [][2]string{
		{set, "systemctl set-property work AllowedCPUs=0-2"},
		{edited, "mkdir -p $(dirname " + edited + ") && printf '[Service]\\nAllowedCPUs=0-2\\n' >" + edited + " && systemctl daemon-reload && systemctl restart work"},
	} {
		file := by[0]
		h.sh(t, by[1])
		h.expect(t, "of the administrator", cpus, "0-2\n0-2")
		says(file, "plan listed")
		says(file, "apply listed --confirm 1h")
		says(file, "commit")
		says(file, "verify")
		h.expect(t, "applied", cpus, "0-1\n0-1")
		h.sh(t, "systemctl daemon-reload && systemctl restart work")
		h.expect(t, "after a daemon-reload", cpus, "0-2\n0-2")
		says(file, "verify 2>&1; [ $? = 4 ]")
		h.sh(t, berth+" tune rollback")
		h.expect(t, "rolled back", cpus, "0-2\n0-2")
		h.sh(t, "rm -r "+file+" /run/systemd/system.control/work.service.d && systemctl daemon-reload && systemctl restart work")
		h.expect(t, "without the file", cpus, "")
	}
}
