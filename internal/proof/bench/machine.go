package bench

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Describe collects what a report says about the machine: the kernel release (/proc/sys/kernel/osrelease), its online
// CPUs (/sys/devices/system/cpu/online) and the layout of its cgroups, unless host is nil.
func Describe(root *hostfs.Root, host *cgroup.Host, version string) (Machine, error) {
	release, err := root.ReadFile("proc/sys/kernel/osrelease")
	if err != nil {
		return Machine{}, fmt.Errorf("describe machine: %w", err)
	}
	online, err := root.ReadFile("sys/devices/system/cpu/online")
	if err != nil {
		return Machine{}, fmt.Errorf("describe machine: %w", err)
	}
	cpus, err := cpuset.Parse(strings.TrimSpace(string(online)))
	if err != nil {
		return Machine{}, fmt.Errorf("describe machine: online CPUs: %w", err)
	}
	machine := Machine{
		Kernel: strings.TrimSpace(string(release)),
		CPUs:   cpus.Size(),
		Berth:  version,
		Arch:   runtime.GOARCH,
	}
	if host != nil {
		machine.Cgroups = host.Layout()
	}
	return machine, nil
}
