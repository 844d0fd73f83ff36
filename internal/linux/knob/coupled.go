package knob

import (
	"path"
	"strings"
)

// coupled returns the other sysctl of a pair, "" if file is in no pair. The kernel uses only one sysctl of a pair: a
// write of one sets the other to 0.
func coupled(file string) string {
	for _, pair := range [][2]string{
		{"vm/dirty_bytes", "vm/dirty_ratio"},
		{"vm/dirty_background_bytes", "vm/dirty_background_ratio"},
		{"vm/overcommit_kbytes", "vm/overcommit_ratio"},
	} {
		switch file {
		case sysctls + "/" + pair[0]:
			return pair[1]
		case sysctls + "/" + pair[1]:
			return pair[0]
		}
	}
	return ""
}

// spreads reports whether a write of a sysctl sets the same value for every network interface.
func spreads(file string) bool {
	switch file {
	case sysctls + "/net/ipv4/ip_forward", sysctls + "/net/ipv4/conf/all/forwarding":
		return true
	}
	return strings.HasPrefix(file, sysctls+"/net/ipv6/conf/all/")
}

// lasts reports whether no later write can undo this value of a sysctl before the next boot:
// Documentation/admin-guide/sysctl/kernel.rst and LSM/Yama.rst.
func lasts(file, value string) bool {
	switch strings.TrimPrefix(file, sysctls+"/kernel/") {
	case "modules_disabled", "kexec_load_disabled", "unprivileged_bpf_disabled":
		return value == "1"
	case "yama/ptrace_scope":
		return value == "3"
	case "kexec_load_limit_panic", "kexec_load_limit_reboot", "tainted", "usermodehelper/bset", "usermodehelper/inheritable":
		return true // Each write can only remove, or only add.
	}
	return false
}

// watchdog returns why a switch of the lockup detectors may not be restored, "" if it can be. kernel.watchdog is the
// switch for all detectors, and each detector has its own; a detector is on if both switches are on. A switch shows
// whether detectors are on. Before a fix, proc_watchdog_common in kernel/watchdog.c stored that state at each read.
// While all detectors are off, a read of a switch therefore sets the switch to 0.
func (h *Host) watchdog(file string) string {
	other := ""
	switch file {
	case sysctls + "/kernel/watchdog":
		return "undo may fail: a kernel with all lockup detectors off sets each of their switches to 0 that is read; set kernel.nmi_watchdog or kernel.soft_watchdog"
	case sysctls + "/kernel/nmi_watchdog":
		other = "soft_watchdog"
	case sysctls + "/kernel/soft_watchdog":
		other = "nmi_watchdog"
	}
	if other == "" || strings.TrimSpace(h.Text(sysctls+"/kernel/"+other)) != "0" || strings.TrimSpace(h.Text(file)) == "0" {
		return ""
	}
	return LastWatchdog
}

// LastWatchdog says why the last lockup detector stays on.
const LastWatchdog = "undo may fail: with this one all lockup detectors are off, and a kernel then sets kernel.watchdog to 0 when that is read"

// IsWatchdog reports whether a file is the switch of one lockup detector.
func IsWatchdog(file string) bool {
	return file == sysctls+"/kernel/nmi_watchdog" || file == sysctls+"/kernel/soft_watchdog"
}

// destroys returns what is lost permanently once a sysctl has this value, "" for nothing.
func destroys(file, value string) string {
	switch {
	case value == "0": // the kernel treats any other number as 1
	case ofInterface(file, "disable_ipv6"):
		// addrconf_disable_ipv6 -> dev_disable_change -> addrconf_ifdown in net/ipv6/addrconf.c. When 0 is written
		// again, the kernel creates only the link-local address.
		return "undo would lose the interface's IPv6 addresses and routes, and with them who is connected by these"
	case file == sysctls+"/kernel/shm_rmid_forced":
		// proc_ipc_dointvec_minmax_orphans in ipc/ipc_sysctl.c -> shm_destroy_orphaned.
		return "undo would lose the shared memory that no process is attached to"
	}
	return ""
}

// forwards reports whether writing 1 to a sysctl removes the default routes that routers advertised, on all interfaces
// (addrconf_fixup_forwarding -> rt6_purge_dflt_routers).
func forwards(file string) bool { return ofInterface(file, "forwarding") }

// ofInterface reports whether a file is an IPv6 sysctl of one interface, not of all or of future interfaces.
func ofInterface(file, name string) bool {
	is, err := path.Match(sysctls+"/net/ipv6/conf/*/"+name, file)
	return err == nil && is && !spreads(file) && !strings.HasPrefix(file, sysctls+"/net/ipv6/conf/default/")
}

// LossOf returns what a write of this value would change that undo cannot restore, "" for nothing.
func (f Found) LossOf(value string) string {
	if f.Loss == "" && lasts(f.File, value) {
		return "undo would be refused: the kernel keeps " + value + " until the next boot"
	}
	if f.Loss == "" {
		return destroys(f.File, value)
	}
	return f.Loss
}

// loss returns what any write of a file would change elsewhere that undo cannot restore, "" for nothing.
func (h *Host) loss(file string) string {
	if file == sysctls+"/net/ipv6/conf/all/disable_ipv6" {
		return "undo would lose the interfaces' own values, and 1 their IPv6 addresses and routes"
	}
	if spreads(file) {
		return "undo would lose the interfaces' own values: set each interface"
	}
	if why := h.watchdog(file); why != "" {
		return why
	}
	other := coupled(file)
	if other == "" {
		return ""
	}
	if value := strings.TrimSpace(h.Text(sysctls + "/" + other)); value != "" && value != "0" {
		return "undo would lose " + strings.ReplaceAll(other, "/", ".") + "=" + value
	}
	return ""
}
