package mover

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// Groups reads control groups for the mover.
type Groups interface {
	// Processes returns the processes in a group and below it.
	Processes(group string) ([]int, error)
	// Stalled returns how long processes of the group waited for memory since boot, or processes of the host where the
	// kernel does not count by group.
	Stalled(group string) (time.Duration, error)
	// SeesAll reports whether every process of the host has an id here.
	SeesAll() bool
}

// groups implements Groups on the running host.
type groups struct{ host *cgroup.Host }

// OfHost returns the groups of the running host.
func OfHost(host *cgroup.Host) Groups { return groups{host} }

// Processes implements Groups.
func (g groups) Processes(group string) ([]int, error) {
	handle, err := g.host.Group(group)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	pids, unseen, err := handle.Processes()
	if err == nil && unseen > 0 {
		err = fmt.Errorf("%w: group %q: %w", ErrUnseen, group, fs.ErrPermission)
	}
	return pids, err
}

func (groups) SeesAll() bool { return kernel.SeesAllThreads() }

// Stalled reads the pressure files of Documentation/accounting/psi.rst. On cgroup v2 every group has one. It returns 0
// on a kernel that does not count pressure.
func (g groups) Stalled(group string) (time.Duration, error) {
	name := "proc/pressure/memory"
	if h, err := g.host.Hierarchy(cgroup.CPU); err == nil && h.Version == 2 {
		name = h.Mount + "/" + group + "/memory.pressure"
	}
	data, err := g.host.Root().ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EOPNOTSUPP) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("memory pressure of %q: %w", group, err)
	}
	return parsePressure(string(data))
}

// parsePressure returns the total of the line "some avg10=0.00 ... total=42", in microseconds.
func parsePressure(text string) (time.Duration, error) {
	line, _, _ := strings.Cut(text, "\n")
	_, total, _ := strings.Cut(line, " total=")
	n, err := strconv.ParseUint(strings.TrimSpace(total), 10, 53)
	if err != nil {
		return 0, fmt.Errorf("memory pressure %q: %w", line, cgroup.ErrMalformed)
	}
	return time.Duration(n) * time.Microsecond, nil
}

// ClaimOf returns how much a group may still use of its memory nodes, 0 if it has no memory limit of its own. With an
// error the claim has the nodes, if they could be read.
func ClaimOf(host *cgroup.Host, group string) (locality.Claim, error) {
	g, err := host.Group(group, cgroup.CPUSet)
	if err != nil {
		return locality.Claim{}, err
	}
	defer g.Close()
	nodes, err := g.EffectiveMems()
	if err != nil {
		return locality.Claim{}, err
	}
	m, err := g.Memory()
	switch {
	case errors.Is(err, cgroup.ErrNoController), errors.Is(err, cgroup.ErrNoHierarchy), errors.Is(err, cgroup.ErrNoGroup):
		return locality.Claim{Nodes: nodes}, nil // no limit of its own
	case err != nil:
		return locality.Claim{Nodes: nodes}, err
	}
	defer m.Close()
	limit, limited, err := m.Limit()
	if err != nil || !limited {
		return locality.Claim{Nodes: nodes}, err
	}
	current, err := m.Current()
	return locality.Claim{Nodes: nodes, Bytes: max(limit-current, 0)}, err
}
