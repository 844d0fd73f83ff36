package vmnode

import (
	"fmt"
	"testing"
)

// steps are conditions of the shell that become true in the course of an apply of hostProfile.
func steps() map[string]string {
	is := func(file, value string) string {
		return fmt.Sprintf("{ read -r v <%s; } 2>/dev/null && [ \"$v\" = %s ]", file, value)
	}
	const groups = "/sys/fs/cgroup/"
	return map[string]string{
		"Record":    "[ -e " + record + " ]",
		"Partition": is(groups+"poll.slice/cpuset.cpus.partition", "isolated"),
		"Interrupt": is("/proc/irq/default_smp_affinity", "3"),
		half:        is(groups+"system.slice/work.service/cpuset.cpus", "0-1"),
	}
}

// half is the step after which policies and knobs are still to come.
const half = "Unit"

const (
	record = "/var/lib/berth/tune/applied"
	keeper = "systemctl list-units --plain --no-legend --all 'berth-tune-*.service' | cut -d' ' -f1"
)

// midway returns a script that starts an apply and stops it (SIGSTOP) at a step. Its process id is $a then.
func midway(apply, step string) string {
	return fmt.Sprintf(`%s tune apply %s >/tmp/apply 2>&1 & a=$!
state() { read -r s </proc/$a/stat; s=${s#*) }; s=${s%%%% *}; }
until %s; do state; [ $s != Z ] || { cat /tmp/apply >&2; exit 9; }; done
kill -STOP $a
until [ $s = T ]; do state; [ $s != Z ] || { echo the apply had ended >&2; exit 9; }; done
`, berth, apply, step)
}

// slain kills an apply, its keeper and the agent together in the middle of the apply, at each step. systemd must start
// the keeper or the agent again, and they must undo the apply.
func (h *host) slain(t *testing.T) {
	const (
		all = `systemctl is-active berth-agent >&2
k=$(` + keeper + `)
kill -KILL $a $(systemctl show -P MainPID berth-agent) ${k:+$(systemctl show -P MainPID $k)}
echo $k`
		left = "; ls " + record + " 2>/dev/null; " + keeper
	)
	for name, step := range steps() {
		t.Run(name, func(t *testing.T) {
			t.Log("keeper:", h.sh(t, midway("host --confirm 1h", step)+all))
			h.eventually(t, "undone", had+left, h.before)
			h.eventually(t, "the agent runs again", agent, runs)
		})
	}
	t.Run("Keeper", h.restarted)
	t.Run("Alone", h.alone)
}

// restarted kills an apply and its keeper while no agent runs. systemd must start the keeper again.
func (h *host) restarted(t *testing.T) {
	h.sh(t, "systemctl stop berth-agent")
	h.sh(t, midway("host --confirm 1h", steps()[half])+"kill -KILL $a $(systemctl show -P MainPID $("+keeper+"))")
	h.eventually(t, "undone", had, h.before)
	h.sh(t, "systemctl start berth-agent")
}

// alone kills an apply while neither a keeper nor an agent runs. The next command must undo it.
func (h *host) alone(t *testing.T) {
	const written = "cat /sys/fs/cgroup/system.slice/work.service/cpuset.cpus /sys/fs/cgroup/poll.slice/cpuset.cpus.partition"
	h.sh(t, "systemctl stop berth-agent")
	h.sh(t, midway("host --confirm 1h", steps()[half])+"systemctl stop $("+keeper+"); kill -KILL $a")
	h.expect(t, "nobody undoes it", written, "0-1\nisolated")
	h.fails(t, 4, berth, "tune", "verify")
	h.expect(t, "verify only reads", written, "0-1\nisolated")
	h.sh(t, berth+" tune list")
	h.expect(t, "the next command undid it", had, h.before)
	h.sh(t, "test ! -e "+record+" && systemctl start berth-agent")
}

// cutAgain cuts the power in the middle of an apply of the committed profile after a boot. The unit of the packages
// must complete it in the next boot.
func (h *host) cutAgain(t *testing.T) {
	h.sh(t, "systemctl disable berth-tune && sync")
	h.reboot(t)
	h.expect(t, "without the unit", had, h.before)
	h.sh(t, "systemctl enable berth-tune && sync")
	h.sh(t, midway("--committed", steps()[half]))
	h.reboot(t)
	h.repeated(t)
}

// cutBefore cuts the power in the middle of an apply that nobody committed. The next boot must have the kernel's
// defaults and no profile on record, and the unit of the packages must succeed.
func (h *host) cutBefore(t *testing.T) {
	h.sh(t, "systemctl enable berth-tune && sync")
	h.sh(t, midway("host --confirm 1h", steps()[half]))
	h.reboot(t)
	h.ran(t)
	h.expect(t, "after the boot", had+"; ls "+record+" 2>/dev/null || true", h.before)
	t.Log(h.sh(t, berth+" tune list; journalctl -b -u berth-tune -o cat --no-pager || true"))
	h.sh(t, berth+" tune apply host --confirm 1h && "+berth+" tune verify && "+berth+" tune rollback")
	h.expect(t, "rolled back", had, h.before)
}
