package vmnode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-project/berth/test/kernel"
)

// database and webserver are the services of the built-in profile numa-services. Both record the lists with which they
// start.
const (
	begins   = "ExecStartPre=/bin/sh -c 'grep -h allowed_list /proc/self/status >/run/started-%N'\n"
	serves   = "/usr/bin/perl -e '$$x = \"a\" x 8388608; sleep 1 while 1'\n"
	database = `[Service]
` + begins + `ExecStart=/usr/bin/sleep infinity
[Install]
WantedBy=multi-user.target
`
	webserver = `[Service]
` + begins + `ExecStart=` + serves + `[Install]
WantedBy=multi-user.target
`
	// poller has one process for each CPU of the partition, pinned as a program of DPDK pins its threads.
	poller = `[Service]
Slice=dpdk.slice
ExecStart=/bin/sh -c 'taskset -c 1 sleep infinity & exec taskset -c 3 sleep infinity'
[Install]
WantedBy=multi-user.target
`
	// joined is a service in the slice that the built-in profile dpdk starts.
	joined = `[Service]
Slice=` + ownSlice + `
` + begins + `ExecStart=/usr/bin/sleep infinity
[Install]
WantedBy=multi-user.target
`
	ownSlice = `berth\x2dfast.slice`
)

// polling is what an administrator adds to the built-in profile dpdk.
const polling = `apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: polling}
spec:
  inherit: dpdk
  units:
  - {unit: dpdk.slice, cpus: fast}
`

// TestProfilesOnTwoNodes applies built-in profiles to services on a host with two NUMA nodes of two cores each, and
// takes each profile through commit, power cut, boot and rollback. All values are the kernel's.
func TestProfilesOnTwoNodes(t *testing.T) {
	h := newHost(t, Options{
		Name: "nodes", IP: "198.18.7.8",
		Machine:   kernel.Machine{Name: "nodes", Sockets: 2, Dies: 1, Cores: 2, Threads: 1, Nodes: 2, MiB: 1536},
		Arguments: []string{"nohz_full=1,3", "rcu_nocbs=1,3", "isolcpus=managed_irq,1,3"},
	})
	h.write("/etc/systemd/system/db.service", database)
	h.write("/etc/systemd/system/web.service", webserver)
	h.write("/etc/systemd/system/poller.service", poller)
	h.write("/etc/berth/profiles/polling.yaml", polling)
	h.sh(t, "systemctl daemon-reload && systemctl enable berth-tune db web poller && systemctl start db web poller")
	t.Run("OwnSlice", h.own)
	t.Run("NUMAServices", h.services)
	t.Run("DPDK", h.dpdk)
}

// life applies a profile and takes it through commit, power cut, boot and rollback. In the boot, each of the services
// must start with the lists that begun names.
func (h *host) life(t *testing.T, name, has, want string, begun map[string]string) {
	t.Helper()
	first := h.sh(t, has)
	t.Log("before:\n" + first)
	t.Log(h.sh(t, berth+" tune apply "+name+" --confirm 1h"))
	h.expect(t, "applied", has, want)
	t.Log(h.sh(t, berth+" tune verify"))
	h.sh(t, berth+" tune commit && sync")
	h.reboot(t)
	h.eventually(t, "the unit ran", "systemctl show -P ActiveState berth-tune | grep -v activating", "active")
	t.Log(h.sh(t, "journalctl -b -u "+aheadUnit+" --no-pager"))
	for service, lists := range begun {
		h.expect(t, service+" started with", "awk '{print $2}' /run/started-"+service, lists)
	}
	h.expect(t, "units out of order", "journalctl -b -o cat --no-pager | grep -c 'ordering cycle' || true", "0")
	h.expect(t, "after the boot", has, want)
	h.sh(t, berth+" tune verify")
	h.sh(t, berth+" tune rollback")
	h.expect(t, "rolled back", has, first)
}

// services binds two services to the CPUs and the memory of one NUMA node each.
func (h *host) services(t *testing.T) {
	const has = `for s in db web; do
g=/sys/fs/cgroup/system.slice/$s.service; p=/proc/$(systemctl show -P MainPID $s)
echo $s $(systemctl show -P AllowedCPUs $s) / $(systemctl show -P AllowedMemoryNodes $s)
c=$(cat $g/cpuset.cpus.effective 2>/dev/null || cat /sys/fs/cgroup/cpuset.cpus.effective)
m=$(cat $g/cpuset.mems.effective 2>/dev/null || cat /sys/fs/cgroup/cpuset.mems.effective)
echo $s $c / $m / $(sed -n 's/^\(Cpus\|Mems\)_allowed_list:\t//p' $p/status)
done
cat /sys/devices/virtual/workqueue/cpumask /proc/irq/default_smp_affinity`
	h.refusesAffinity(t, has)
	h.life(t, "numa-services", has, "db 1 / 0\ndb 1 / 0 / 1 0\nweb 3 / 1\nweb 3 / 1 / 3 1\n5\n5",
		map[string]string{"db": "1\n0", "web": "3\n1"})
	h.memory(t)
}

// refusesAffinity gives a service a CPUAffinity without a CPU of its list: with the list it could not start again. A
// plan and an apply say so, and nothing is written.
func (h *host) refusesAffinity(t *testing.T, has string) {
	const (
		dropIn = "/run/systemd/system/web.service.d/affinity.conf"
		says   = "web.service has CPUAffinity=0-1 itself, and could not start with 3"
	)
	h.write(dropIn, "[Service]\nCPUAffinity=0-1\n")
	h.sh(t, "systemctl daemon-reload")
	before := h.sh(t, has)
	if said := h.fails(t, 3, berth, "tune", "apply", "numa-services"); !strings.Contains(said, says) {
		t.Errorf("the refusal does not name the CPUs: %s", said)
	}
	if plan := h.sh(t, berth+" tune plan numa-services -o json"); !strings.Contains(plan, says) {
		t.Errorf("the plan does not name the CPUs: %s", plan)
	}
	h.expect(t, "after the refusal", has, before)
	h.sh(t, "rm "+dropIn+" && systemctl daemon-reload")
}

// memory compares the pages of a service that runs with the node that a profile names: one apply moves them, also of a
// process that systemd started inside its group, which keeps its pages at the first change of the list (docs/tune.md).
func (h *host) memory(t *testing.T) {
	const pages = `sed -n '/anon=/s/.* N%d=\([0-9]*\).*/\1/p' /proc/$(systemctl show -P MainPID web)/numa_maps | awk '{n += $1} END {print n + 0}'`
	isOn := func(node int) {
		h.eventually(t, fmt.Sprintf("its memory is on node %d", node), "[ $("+fmt.Sprintf(pages, node)+") -ge 2048 ] && echo yes", "yes")
	}
	h.write("/run/systemd/system/web.service.d/first.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/taskset -c 0-1 "+serves)
	h.sh(t, "systemctl daemon-reload && systemctl restart web") // a rollback leaves pages where they are
	isOn(0)
	begun := h.sh(t, "systemctl show -P ExecMainStartTimestampMonotonic web")
	t.Log(h.sh(t, berth+" tune plan numa-services"))
	t.Log(h.sh(t, berth+" tune apply numa-services --confirm 1h"))
	h.expect(t, "anonymous pages on the other node", fmt.Sprintf(pages, 0), "0")
	isOn(1)
	t.Log(h.sh(t, berth+" tune verify"))
	h.expect(t, "its start", "systemctl show -P ExecMainStartTimestampMonotonic web", begun)
	h.expect(t, "its list", "cat /sys/fs/cgroup/system.slice/web.service/cpuset.mems", "1")
	h.sh(t, berth+" tune rollback")
}

// own applies the built-in profile dpdk, for which Berth starts a slice. Services join the slice. A rollback does not
// stop it while a service is in it. After a boot, an enabled service must start on the CPUs of the slice.
func (h *host) own(t *testing.T) {
	const has = `cd /sys/fs/cgroup; s='` + ownSlice + `'
cat "$s/cpuset.cpus.partition" 2>/dev/null || echo member
echo "isolated $(cat cpuset.cpus.isolated), others $(cat cpuset.cpus.effective)"
echo "slice $(systemctl show -P AllowedCPUs "$s")"
sed -n 's/^Cpus_allowed_list:\t//p' /proc/$(systemctl show -P MainPID pinned)/status
cat /sys/devices/virtual/workqueue/cpumask /proc/irq/default_smp_affinity`
	const want = "isolated\nisolated 1,3, others 0,2\nslice 1 3\n2\n5\n5"
	const is = `systemctl show -P ActiveState,SubState,Transient,AllowedCPUs '` + ownSlice + `'`
	const gone = is + `; ls /run/systemd/transient /sys/fs/cgroup | grep x2d || true`
	h.sh(t, "systemd-run --unit pinned taskset -c 1-2 sleep infinity")
	h.eventually(t, "it is pinned", "sed -n 's/^Cpus_allowed_list:\t//p' /proc/$(systemctl show -P MainPID pinned)/status", "1-2")
	first, before := h.sh(t, has), h.sh(t, gone)
	t.Log("before:\n" + first + "\n" + before)
	for _, command := range []string{"plan dpdk", "apply dpdk --confirm 1h"} {
		said := h.sh(t, berth+" tune "+command)
		t.Log(said)
		if !strings.Contains(strings.Join(strings.Fields(said), " "), "Slice="+ownSlice) {
			t.Errorf("%s does not say how services join", command)
		}
	}
	h.expect(t, "applied", has, want)
	h.sh(t, berth+" tune verify")
	h.sh(t, "systemd-run --unit visitor --slice '"+ownSlice+"' sleep infinity; systemctl daemon-reload")
	h.expect(t, "a service of the slice", "sed -n 's/^Cpus_allowed_list:\t//p' /proc/$(systemctl show -P MainPID visitor)/status", "1,3")
	foretold := h.fails(t, 4, berth, "tune", "rollback", "--dry-run")
	h.expect(t, "after a dry run", has, want)
	said := h.fails(t, 4, berth, "tune", "rollback")
	t.Log(foretold, said)
	if !strings.Contains(foretold, "visitor.service") || !strings.Contains(said, "visitor.service") {
		t.Error("the rollback does not name the service")
	}
	h.expect(t, "rolled back with a service", has, strings.Replace(first, "slice ", "slice 1 3", 1))
	h.sh(t, "systemctl is-active visitor && systemctl stop visitor && "+berth+" tune rollback")
	h.expect(t, "rolled back", has, first)
	h.expect(t, "rolled back", gone, before)
	t.Log(h.sh(t, "systemctl show -p LoadState -p LoadError -p FragmentPath '"+ownSlice+"'"))
	h.sh(t, berth+" tune apply dpdk --confirm 1h") // systemd still knows the name
	h.expect(t, "applied again", has, want)
	h.sh(t, berth+" tune rollback")
	h.expect(t, "rolled back again", has, first)
	h.expect(t, "rolled back again", gone, before)

	// systemd keeps a stopped slice that an enabled service names.
	h.write("/etc/systemd/system/joined.service", joined)
	h.sh(t, "systemctl daemon-reload && systemctl enable joined && "+berth+" tune apply dpdk --confirm 1h && systemctl start joined")
	if said := h.fails(t, 4, berth, "tune", "rollback"); !strings.Contains(said, "joined.service") {
		t.Error("the rollback does not name the service: " + said)
	}
	for range 2 {
		h.sh(t, "systemctl stop joined && "+berth+" tune rollback")
		t.Log(h.sh(t, "systemctl show -p LoadState -p ActiveState -p Transient -p FragmentPath -p AllowedCPUs '"+ownSlice+"'"))
		h.expect(t, "rolled back with a service that names it", has, first)
		h.sh(t, berth+" tune apply dpdk --confirm 1h")
		h.expect(t, "applied for a service that names it", has, want)
	}
	h.sh(t, berth+" tune rollback && systemctl disable joined && systemctl daemon-reload")
	h.expect(t, "rolled back for the last time", gone, before)

	// A rollback leaves an empty list of a slice that systemd started. systemd reads it after the list of the next start.
	h.sh(t, "systemctl start joined && "+berth+" tune apply dpdk --confirm 1h")
	h.expect(t, "applied to a slice that systemd started", has, want)
	h.sh(t, berth+" tune rollback && systemctl stop joined '"+ownSlice+"'")
	t.Log(h.sh(t, "cat '/run/systemd/system.control/"+ownSlice+".d/'*"))
	h.sh(t, berth+" tune apply dpdk --confirm 1h")
	h.expect(t, "applied beside the empty list", has, want)
	h.sh(t, berth+" tune rollback")
	h.expect(t, "rolled back beside the empty list", is, "inactive\ndead\nno")
	// systemd leaves its file of the list in /run/systemd/transient. The empty list comes after it.
	h.expect(t, "a service of the slice then", "systemctl start joined; "+is+"; systemctl stop joined '"+ownSlice+"'", "active\nactive\nno")

	const file = "'/run/systemd/system/" + ownSlice + "'"
	h.sh(t, "printf '[Slice]\nCPUWeight=50\n' >"+file+" && systemctl daemon-reload")
	if said := h.fails(t, 4, berth, "tune", "apply", "dpdk"); !strings.Contains(said, "has a unit file") {
		t.Errorf("a slice of the administrator: %s", said)
	}
	if plan := h.sh(t, berth+" tune plan dpdk -o json"); !strings.Contains(plan, "has a unit file") {
		t.Errorf("the plan of a slice of the administrator: %s", plan)
	}
	h.expect(t, "refused", has, first)
	h.sh(t, "rm "+file+" && systemctl daemon-reload")
	h.write("/etc/systemd/system/pinned.service", "[Service]\nExecStart=/usr/bin/taskset -c 1-2 sleep infinity\n[Install]\nWantedBy=multi-user.target\n")
	h.sh(t, "systemctl stop pinned; systemctl daemon-reload; systemctl start pinned; systemctl enable pinned joined")
	h.eventually(t, "it is pinned", "sed -n 's/^Cpus_allowed_list:\t//p' /proc/$(systemctl show -P MainPID pinned)/status", "1-2")
	h.life(t, "dpdk", has, want, map[string]string{"joined": "1,3\n0-1"})
	h.sh(t, "systemctl disable --now pinned joined && systemctl stop '"+ownSlice+"'")
	h.expect(t, "in the end", gone, before)
}

// dpdk applies a profile that adds a unit to the built-in profile dpdk.
func (h *host) dpdk(t *testing.T) {
	const has = `cd /sys/fs/cgroup
cat dpdk.slice/cpuset.cpus.partition cpuset.cpus.isolated cpuset.cpus.effective
cat dpdk.slice/cpuset.cpus.effective
systemctl show -P AllowedCPUs dpdk.slice
for p in $(cat dpdk.slice/poller.service/cgroup.procs); do sed -n 's/^Cpus_allowed_list:\t//p' /proc/$p/status; done | sort
cat /sys/devices/virtual/workqueue/cpumask /proc/irq/default_smp_affinity /proc/sys/kernel/numa_balancing
cat /sys/devices/system/cpu/nohz_full`
	h.life(t, "polling", has, "isolated\n1,3\n0,2\n1,3\n1 3\n1\n3\n5\n5\n0\n1,3", nil)
}
