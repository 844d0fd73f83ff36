package scratch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	procsFile  = "cgroup.procs"
	cpusFile   = "cpuset.cpus"
	memsFile   = "cpuset.mems"
	periodFile = "cpu.cfs_period_us" // v1 only
)

// SetMax sets the quota (unit.NoLimit for none) in every period. On v1, where these are two files, SetMax removes the
// limit for a moment when the period changes, because no order of the two writes alone is always right.
func (g *Group) SetMax(quota, period unit.Micros) error {
	hier, err := g.host.Hierarchy(cgroup.CPU)
	if err != nil {
		return fmt.Errorf("limit of %q: %w", g.path, err)
	}
	if hier.Version == 1 {
		if err := g.setPeriod(period); err != nil {
			return err
		}
	}
	return g.set(cgroup.KnobMax, cgroup.MaxValue(quota, period))
}

// setPeriod sets the period of v1, unless it is already in effect.
func (g *Group) setPeriod(period unit.Micros) error {
	now, err := g.handle.Bandwidth()
	if err != nil {
		return fmt.Errorf("period of %q: %w", g.path, err)
	}
	if now.Period == period {
		return nil
	}
	if err := g.set(cgroup.KnobMax, cgroup.MaxValue(unit.NoLimit, now.Period)); err != nil {
		return err
	}
	return g.write(cgroup.CPU, periodFile, strconv.FormatInt(int64(period), 10))
}

// SetBurst sets how much unused quota may accumulate, at most the quota.
func (g *Group) SetBurst(burst unit.Micros) error {
	now, err := g.handle.Bandwidth()
	if err != nil {
		return fmt.Errorf("burst of %q: %w", g.path, err)
	}
	return g.set(cgroup.KnobBurst, cgroup.BurstValue(burst, now.Period))
}

// SetPrecedence sets the group's precedence over other groups. The kernel refuses a weight while the group is idle.
func (g *Group) SetPrecedence(v cgroup.Value) error { return g.set(cgroup.KnobPrecedence, v) }

// SetCPUs sets the CPUs the group may use.
func (g *Group) SetCPUs(cpus cpuset.Set) error {
	return g.write(cgroup.CPUSet, cpusFile, cpus.String())
}

// Attach moves a process into the group, in every hierarchy.
func (g *Group) Attach(pid int) error {
	seen := map[string]bool{}
	for _, c := range cgroup.Controllers() {
		hier, err := g.host.Hierarchy(c)
		if err != nil || seen[hier.Mount] {
			continue
		}
		seen[hier.Mount] = true
		if err := g.write(c, procsFile, strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return g.attachMemory(pid)
}

func (g *Group) set(k cgroup.Knob, v cgroup.Value) error {
	dir, file, content, err := g.handle.Encode(k, v)
	if err != nil {
		return fmt.Errorf("set %s: %w", k, err)
	}
	if err := hostwrite.Existing(dir, file, content); err != nil {
		return fmt.Errorf("set %s: %w", k, err)
	}
	return nil
}

func (g *Group) write(c cgroup.Controller, file, content string) error {
	dir, err := g.handle.Dir(c)
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", content, file, err)
	}
	if err := hostwrite.Existing(dir, file, content); err != nil {
		return fmt.Errorf("group %q: %w", g.path, err)
	}
	return nil
}

// inheritCPUs gives a new cpuset of v1 its parent's CPUs and memory nodes.
func (g *Group) inheritCPUs(parent string) error {
	hier, err := g.host.Hierarchy(cgroup.CPUSet)
	if errors.Is(err, cgroup.ErrNoHierarchy) || hier.Version == 2 {
		return nil
	}
	for _, file := range []string{cpusFile, memsFile} {
		data, err := g.host.Root().ReadFile(hier.Mount + "/" + parent + "/" + file)
		if err != nil {
			return fmt.Errorf("inherit %s: %w", file, err)
		}
		if err := g.write(cgroup.CPUSet, file, strings.TrimSpace(string(data))); err != nil {
			return err
		}
	}
	return nil
}
