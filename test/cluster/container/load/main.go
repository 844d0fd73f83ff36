// Program load allocates memory on a NUMA node that has none of its CPUs, and waits until a signal ends it. A process
// gets such memory when its own node is full.
//
//	load MIB        maps and touches MIB MiB of memory
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/value/cpuset"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: load MIB; not %q", args)
	}
	mib, err := strconv.Atoi(args[0])
	if err != nil || mib < 1 {
		return fmt.Errorf("%q: want a number of MiB", args[0])
	}
	node, err := elsewhere()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // Each thread has its own memory policy.
	var nodes unix.CPUSet  // A mask of nodes has the same layout.
	nodes.Set(node)
	if err := unix.SetMemPolicy(unix.MPOL_BIND, &nodes); err != nil {
		return fmt.Errorf("bind memory to node %d: %w", node, err)
	}
	const how = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	if _, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, how); err != nil {
		return fmt.Errorf("map %d MiB: %w", mib, err)
	}
	// Berth does not migrate pages that have a memory policy.
	if err := unix.SetMemPolicy(unix.MPOL_DEFAULT, nil); err != nil {
		return fmt.Errorf("default memory policy: %w", err)
	}
	fmt.Printf("%d MiB on node %d\n", mib, node)
	return nil
}

// elsewhere returns a node that has none of the CPUs that this process may use.
func elsewhere() (int, error) {
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		return 0, fmt.Errorf("sched_getaffinity: %w", err)
	}
	lists, err := filepath.Glob("/sys/devices/system/node/node[0-9]*/cpulist")
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			return 0, err
		}
		cpus, err := cpuset.Parse(strings.TrimSpace(string(text)))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", list, err)
		}
		if has(cpus, &mine) {
			continue
		}
		return strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(list)), "node"))
	}
	return 0, errors.New("every NUMA node has CPUs of this process")
}

// has reports whether a mask contains one of the CPUs.
func has(cpus cpuset.Set, mask *unix.CPUSet) bool {
	for cpu := range cpus.All() {
		if mask.IsSet(cpu) {
			return true
		}
	}
	return false
}
