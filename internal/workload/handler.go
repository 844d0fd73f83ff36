package workload

import "strings"

// StartsVM says whether the containers of a RuntimeClass, or of a runtime's handler,
// of this name run in a virtual machine. Their CPUs are not pinned: the processes of
// the machine are threads of a hypervisor, and the CPU set of a container's group says
// nothing of what runs where inside.
//
// Nothing in a handler says what it does, so that the name has to: the runtimes that
// start virtual machines are installed as kata, kata-qemu, katafc, firecracker,
// cloud-hypervisor, peerpods and the like, and as runv in Alibaba Cloud's ACK. The words
// of a name, between its dashes and dots, are compared. Kata's own names are often
// written in one word, with a version or a hypervisor, so that the beginning counts.
// A name that sounds like one of these and is none costs its pods their CPUs, and an
// event says so; one that is missed has CPUs held that no process uses. The scheduler, which
// knows the class, and the agent, which knows the handler too, both go by this.
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
