package hardware

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/hostfs"
)

const (
	onlineFile   = "sys/devices/system/cpu/online"
	isolatedFile = "sys/devices/system/cpu/isolated"
)

// CPUs returns which CPUs of a host are online, and which of them are isolated (isolcpus=).
// A kernel without the second file isolates none.
func CPUs(root *hostfs.Root) (online, isolated cpuset.Set, err error) {
	if online, err = readCPUs(root, onlineFile); err != nil {
		return online, isolated, err
	}
	isolated, err = readCPUs(root, isolatedFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return online, isolated, err
}

func readCPUs(root *hostfs.Root, file string) (cpuset.Set, error) {
	data, err := root.ReadFile(file)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("CPUs of the node: %w", err)
	}
	set, err := cpuset.Parse(string(data))
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("CPUs of the node in %s: %w", file, err)
	}
	return set, nil
}
