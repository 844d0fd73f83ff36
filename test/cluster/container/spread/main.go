// Program spread places the pages of the program redis-server on two NUMA nodes: it shares a pod and the names of
// processes with it. The local node is that of the CPUs which redis-server may use.
//
//	spread wait        waits until a signal ends it: then other processes of the container may run
//	spread             prints the percentage of local pages
//	spread PERCENT     makes so many per cent of the pages local and the others remote, and prints the percentage
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const moved = "redis-server"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "spread:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("usage: spread [wait | PERCENT]; not %q", args)
	}
	percent := -1
	if len(args) == 1 {
		if args[0] == "wait" {
			end := make(chan os.Signal, 1)
			signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
			<-end
			return nil
		}
		var err error
		if percent, err = strconv.Atoi(args[0]); err != nil || percent < 0 || percent > 100 {
			return fmt.Errorf("%q: want a percentage", args[0])
		}
	}
	root, err := hostfs.Open("/")
	if err != nil {
		return err
	}
	defer root.Close()
	pid, err := find()
	if err != nil {
		return err
	}
	local, remote, err := nodes(pid)
	if err != nil {
		return err
	}
	s, err := bench.OpenSpread(pages.Live(root), pid, local, remote)
	if err != nil {
		return err
	}
	if percent >= 0 {
		if err := s.Place(percent); err != nil {
			return err
		}
	}
	is, err := s.Percent()
	if err != nil {
		return err
	}
	fmt.Printf("%.2f\n", is)
	return nil
}

// find returns the ID of the process to move.
func find() (int, error) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) == moved {
			return strconv.Atoi(filepath.Base(filepath.Dir(name)))
		}
	}
	return 0, errors.New("there is no " + moved)
}

// nodes returns the NUMA node of the CPUs of a process, and another node.
func nodes(pid int) (local, remote int, err error) {
	local, remote = -1, -1
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return local, remote, err
	}
	_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	mine, err := cpuset.Parse(strings.TrimSpace(list))
	if err != nil {
		return local, remote, fmt.Errorf("CPUs of process %d: %w", pid, err)
	}
	lists, err := filepath.Glob("/sys/devices/system/node/node[0-9]*/cpulist")
	if err != nil {
		return local, remote, err
	}
	for _, name := range lists {
		text, err := os.ReadFile(name)
		if err != nil {
			return local, remote, err
		}
		cpus, err := cpuset.Parse(strings.TrimSpace(string(text)))
		if err != nil {
			return local, remote, fmt.Errorf("%s: %w", name, err)
		}
		node, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(name)), "node"))
		if err != nil {
			return local, remote, fmt.Errorf("%s: %w", name, err)
		}
		switch {
		case mine.IsSubsetOf(cpus):
			local = node
		case !cpus.IsEmpty() && remote < 0:
			remote = node
		}
	}
	if local < 0 || remote < 0 {
		return local, remote, fmt.Errorf("CPUs %s are not on one of two NUMA nodes", mine)
	}
	return local, remote, nil
}
