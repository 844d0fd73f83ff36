package knob

import "strings"

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

// LossOf says what a write of this value would change that no undo puts back, "" for nothing.
func (f Found) LossOf(value string) string {
	if f.Loss == "" && lasts(f.File, value) {
		return "undo would be refused: the kernel keeps " + value + " until the next boot"
	}
	return f.Loss
}

// loss says what a write of a file would change elsewhere that no undo puts back, "" for
// nothing.
func (h *Host) loss(file string) string {
	if spreads(file) {
		return "undo would lose the interfaces' own values: set each interface"
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
