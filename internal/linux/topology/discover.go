package topology

import (
	"fmt"
	"io/fs"
	"strconv"

	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
)

// Discover reads the machine whose /sys (and /proc, for its memory size) are below fsys, as directories "sys" and
// "proc". It fails only with ErrNoMachine, or with a *cpuset.RangeError for more CPUs than a set can hold. All other
// faults of the tree become warnings.
func Discover(fsys fs.FS) (*Topology, error) {
	src := newSource(fsys)
	defer src.close()
	t, err := src.cpus()
	if err != nil {
		return nil, err
	}
	t.Cores = src.cores(t.Online)
	t.Sockets = src.sockets(t.Cores)
	t.Dies = src.dies(t.Cores)
	if t.Nodes, err = src.nodes(t.Online); err != nil {
		return nil, err
	}
	src.placeInNodes(t.Cores, t.Nodes)
	t.L3, t.Caches = src.caches(t.Cores)
	src.kinds(t)
	t.Warnings = src.notes.all()
	return t, nil
}

// cpus reads the sets of online, offline, isolated and nohz_full CPUs.
func (s *source) cpus() (*Topology, error) {
	var off cpuset.Set
	online, ok := s.list(cpuDir + "/online")
	if !ok || online.IsEmpty() {
		var err error
		if online, off, err = s.onlineByDirectory(); err != nil {
			return nil, err
		}
	}
	present, ok := s.list(cpuDir + "/present")
	if ok && present.Intersects(online) {
		if absent := online.Difference(present); !absent.IsEmpty() {
			s.notes.cpus(absent, "listed as online but not as present, left out")
			online = online.Intersect(present)
		}
	} else {
		listed, _ := s.list(cpuDir + "/offline")
		present = online.Union(off).Union(listed)
	}
	isolated, _ := s.list(cpuDir + "/isolated")
	noHzFull, _ := s.list(cpuDir + "/nohz_full")
	return &Topology{
		Online:   online,
		Offline:  present.Difference(online),
		Isolated: isolated.Intersect(present),
		NoHzFull: noHzFull.Intersect(present),
	}, nil
}

// onlineByDirectory is for trees without a usable cpu/online. Every CPU with a directory is online, unless its own file
// says that it is off (cpu0 often has no such file).
func (s *source) onlineByDirectory() (online, off cpuset.Set, err error) {
	online, err = s.numbered(cpuDir, "cpu")
	if err != nil {
		return online, off, err
	}
	for cpu := range online.All() {
		if on, ok := s.number(cpuPath(cpu, "online")); ok && on == 0 {
			off = off.Add(cpu)
		}
	}
	online = online.Difference(off)
	if online.IsEmpty() {
		return online, off, fmt.Errorf("read %s: no list of online CPUs and no directory of one: %w", cpuDir, ErrNoMachine)
	}
	s.notes.add("no usable list of online CPUs: taken from the CPU directories")
	return online, off, nil
}

// cpuPath returns the path of a file of one CPU.
func cpuPath(cpu int, name string) string {
	return cpuDir + "/cpu" + strconv.Itoa(cpu) + "/" + name
}
