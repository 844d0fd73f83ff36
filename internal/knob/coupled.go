package knob

import (
	"path"
	"strings"
)

// coupled names the sysctls of which the kernel keeps one of two: a write of one makes the
// other one 0.
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

// spreads says whether a write of a sysctl sets the same of every network interface.
func spreads(file string) bool {
	switch file {
	case sysctls + "/net/ipv4/ip_forward", sysctls + "/net/ipv4/conf/all/forwarding":
		return true
	}
	return strings.HasPrefix(file, sysctls+"/net/ipv6/conf/all/")
}

// lasts says whether the kernel keeps this value of a sysctl until the next boot, whatever is written
// afterwards: Documentation/admin-guide/sysctl/kernel.rst and LSM/Yama.rst.
func lasts(file, value string) bool {
	switch strings.TrimPrefix(file, sysctls+"/kernel/") {
	case "modules_disabled", "kexec_load_disabled", "unprivileged_bpf_disabled":
		return value == "1"
	case "yama/ptrace_scope":
		return value == "3"
	case "kexec_load_limit_panic", "kexec_load_limit_reboot", "tainted", "usermodehelper/bset", "usermodehelper/inheritable":
		return true // Each change only takes away, or adds.
	}
	return false
}

// watchdog says why a switch of the lockup detectors may not come back, "" where it does. The switches are
// kernel.watchdog for all, and one for each detector; a detector is on where both are. What a switch shows is whether
// detectors are on, and until it was mended proc_watchdog_common in kernel/watchdog.c stored that at each read: while
// all are off, whoever reads a switch sets it to 0.
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

// IsWatchdog says whether a file is the switch of one lockup detector.
func IsWatchdog(file string) bool {
	return file == sysctls+"/kernel/nmi_watchdog" || file == sysctls+"/kernel/soft_watchdog"
}

// destroys says what is gone for good once a sysctl has this value, "" for nothing.
func destroys(file, value string) string {
	switch {
	case value == "0": // any other number is 1 to the kernel
	case ofInterface(file, "disable_ipv6"):
		// addrconf_disable_ipv6 -> dev_disable_change -> addrconf_ifdown in net/ipv6/addrconf.c; with 0 again the kernel
		// makes the link-local address only.
		return "undo would lose the interface's IPv6 addresses and routes, and with them who is connected by these"
	case file == sysctls+"/kernel/shm_rmid_forced":
		// proc_ipc_dointvec_minmax_orphans in ipc/ipc_sysctl.c -> shm_destroy_orphaned.
		return "undo would lose the shared memory that no process is attached to"
	}
	return ""
}

// forwards says whether a write of 1 to a sysctl takes the default routes that routers advertised, of all interfaces
// (addrconf_fixup_forwarding -> rt6_purge_dflt_routers).
func forwards(file string) bool { return ofInterface(file, "forwarding") }

// ofInterface says whether a file is a sysctl of IPv6 of one interface, not that of those to come.
func ofInterface(file, name string) bool {
	is, err := path.Match(sysctls+"/net/ipv6/conf/*/"+name, file)
	return err == nil && is && !spreads(file) && !strings.HasPrefix(file, sysctls+"/net/ipv6/conf/default/")
}

// LossOf says what a write of this value would change that no undo puts back, "" for nothing.
func (f Found) LossOf(value string) string {
	if f.Loss == "" && lasts(f.File, value) {
		return "undo would be refused: the kernel keeps " + value + " until the next boot"
	}
	if f.Loss == "" {
		return destroys(f.File, value)
	}
	return f.Loss
}

// loss says what a write of a file would change elsewhere that no undo puts back, "" for
// nothing.
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
