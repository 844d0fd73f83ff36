package workload

import (
	"slices"
	"strings"
)

// StartsVM says whether the containers of a RuntimeClass, or of a runtime's handler,
// of this name run in a virtual machine. Their CPUs are not pinned: the processes of
// the machine are threads of a hypervisor, and the CPU set of a container's group says
// nothing of what runs where inside.
//
// Nothing in a handler says what it does, so that the name has to: the runtimes that
// start virtual machines are installed as kata, kata-qemu, firecracker,
// cloud-hypervisor, peerpods and the like. The words of a name, between its dashes and
// dots, are compared. The name of an emulator is one of other things as well, and
// counts as the first or the last word only. The scheduler, which knows the class, and
// the agent, which knows the handler too, both go by this.
func StartsVM(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '.' || r == '_' })
	for i, word := range words {
		switch word {
		case "kata", "katacontainers", "firecracker", "peerpod", "peerpods":
			return true
		case "hypervisor":
			if i > 0 && words[i-1] == "cloud" {
				return true
			}
		}
	}
	return len(words) > 0 && slices.Contains([]string{words[0], words[len(words)-1]}, "qemu")
}
