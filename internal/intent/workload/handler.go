package workload

import "strings"

// StartsVM reports whether the containers of a RuntimeClass, or of a runtime's handler, of this name run in a virtual
// machine. Berth does not pin their CPUs: the processes in the machine are threads of a hypervisor, and the CPU set of
// a container's group does not control where they run inside.
//
// A handler has no property that shows this, so StartsVM uses its name. Runtimes that start virtual machines are
// installed as kata, kata-qemu, katafc, firecracker, cloud-hypervisor, peerpods and the like, and as runv in Alibaba
// Cloud's ACK. StartsVM compares the words of the name, between dashes, dots and underscores. Kata's own names are
// often one word with a version or a hypervisor, so the prefix kata suffices. A false positive costs pods their
// exclusive CPUs, and an event reports it; a false negative holds CPUs that no process uses. The scheduler knows the
// class, the agent also the handler; both use this function.
func StartsVM(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '.' || r == '_' })
	for i, word := range words {
		switch word {
		case "firecracker", "peerpod", "peerpods", "qemu", "runv":
			return true
		case "hypervisor":
			if i > 0 && words[i-1] == "cloud" {
				return true
			}
		}
		if strings.HasPrefix(word, "kata") {
			return true
		}
	}
	return false
}
