package hardware

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	cpuDir       = "sys/devices/system/cpu"
	onlineFile   = "online"
	isolatedFile = "isolated"
)

// CPUs are the online CPUs of a host, and its isolated CPUs (isolcpus=). The zero value was not read yet. CPUs keeps
// its files open while it is used: they are read every second.
type CPUs struct {
	Online, Isolated     cpuset.Set
	onlineKept, isolKept *hostfs.File
	buf                  [4096]byte
}

// Read reads both files. A kernel without the second file isolates no CPU.
func (c *CPUs) Read(root *hostfs.Root) error {
	online, err := c.list(root, &c.onlineKept, onlineFile)
	if err != nil {
		return err
	}
	isolated, err := c.list(root, &c.isolKept, isolatedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c.Online, c.Isolated = online, isolated
	return nil
}

// list reads one of the files, and opens it at its first use.
func (c *CPUs) list(root *hostfs.Root, kept **hostfs.File, name string) (cpuset.Set, error) {
	if *kept == nil {
		dir, err := root.Dir(cpuDir)
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("CPUs of the node: %w", err)
		}
		defer dir.Close()
		if *kept, err = dir.Keep(name); err != nil {
			return cpuset.Set{}, fmt.Errorf("CPUs of the node: %w", err)
		}
	}
	data, err := (*kept).Read(c.buf[:])
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("CPUs of the node: %w", err)
	}
	set, err := cpuset.Parse(string(data))
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("CPUs of the node in %s: %w", (*kept).Path(), err)
	}
	return set, nil
}
