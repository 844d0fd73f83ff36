package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// holding are the exclusive CPUs of one workload.
type holding struct {
	workload string
	cpus     cpuset.Set
}

// surroundings describe the other users of the machine's CPUs.
type surroundings struct {
	// group are the CPUs of this process's control group.
	group cpuset.Set
	// inherited are the CPUs that this process was started with.
	inherited cpuset.Set
	// reserved are the CPUs kept for the system.
	reserved cpuset.Set
	held     []holding
	// confined are CPUs to which other programs confine themselves.
	confined cpuset.Set
}

// settleCPUs chooses the CPUs, or checks the CPUs of the list.
func (f *runFlags) settleCPUs(cmd *cobra.Command, o *own, machine *topology.Topology) error {
	around, err := f.around(cmd, o.choose > 0)
	if err != nil {
		return err
	}
	if o.choose == 0 {
		return around.allow(o.cpus)
	}
	var shares bool
	if o.cpus, shares, err = around.choose(o.choose, o.mems, machine); err == nil && shares {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "berth: note: CPUs %s were chosen, but other programs are pinned to %s, too\n", o.cpus, o.cpus.Intersect(around.confined))
	}
	return err
}

// around reads the surroundings. If it may not read the agent's state, it prints a note and relies on the CPUs of its
// own group, which shrinks as the agent pins workloads.
func (f *runFlags) around(cmd *cobra.Command, chooses bool) (surroundings, error) {
	var a surroundings
	var err error
	if a.inherited, err = kernel.ThreadAffinity(0); err != nil {
		return a, err
	}
	if a.group, err = kernel.OwnGroupCPUs(); err != nil {
		return a, err
	}
	agent, err := a.hold(cmd, f.config)
	if errors.Is(err, fs.ErrPermission) {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "berth: note: which CPUs workloads have exclusively is not known: %v\n", err)
		err = nil
	}
	if chooses {
		a.confined = kernel.ConfinedCPUs(a.inherited, agent)
	}
	return a, err
}

// hold reads the CPUs that the agent gave out, and returns its process id, 0 if no agent runs.
func (a *surroundings) hold(cmd *cobra.Command, config string) (agent int, err error) {
	cfg, _, err := findState(cmd, config)
	if err != nil {
		return 0, err
	}
	if a.reserved, err = cpuset.Parse(cfg.ReservedCPUs); err != nil {
		return 0, fmt.Errorf("reservedCPUs of %s: %w", config, err)
	}
	if agent, _, err = journal.Holder(cfg.StateDir); err != nil {
		return 0, fmt.Errorf("stateDir: %w", err)
	}
	snapshot, err := journal.Load(cfg.StateDir, driver.Values())
	if err != nil {
		return agent, fmt.Errorf("stateDir: %w", err)
	}
	root, err := hostfs.Open("/")
	if err != nil {
		return agent, fmt.Errorf("this host: %w", err)
	}
	defer root.Close()
	rows, err := compare(root, snapshot)
	if err != nil {
		return agent, err
	}
	a.held = holdings(rows, a.group)
	return agent, nil
}

// holdings returns the exclusive CPUs among the applied values. It skips a value that contains group, the CPUs of this
// process's own group.
func holdings(rows []applied, group cpuset.Set) []holding {
	var held []holding
	for _, row := range rows {
		if row.Owner != string(plan.OwnerPlace) || row.Knob != string(cgroup.KnobCPUs) || row.State != "applied" {
			continue
		}
		cpus, inherits, err := cgroup.Value(row.Current).List()
		if err != nil || inherits || group.IsSubsetOf(cpus) {
			continue
		}
		held = append(held, holding{row.Workload, cpus})
	}
	return held
}

// allow refuses CPUs that are not available.
func (a surroundings) allow(cpus cpuset.Set) error {
	for _, h := range a.held {
		if h.cpus.Intersects(cpus) {
			return fmt.Errorf("--cpus %s: workload %s has CPUs %s exclusively: %w", cpus, h.workload, h.cpus.Intersect(cpus), ErrHeld)
		}
	}
	if !cpus.IsSubsetOf(a.group) {
		return usageError(fmt.Errorf("--cpus %s: not in the control group of this process: %s: allowed: CPUs of %s", cpus, cpus.Difference(a.group), a.group))
	}
	return nil
}

// choose lets the allocator choose n CPUs, on the nodes mems if these have CPUs. shares is true if some CPUs are
// confined, for lack of others.
func (a surroundings) choose(n int, mems cpuset.Set, t *topology.Topology) (cpus cpuset.Set, shares bool, err error) {
	described := *t
	described.Reserved = t.Reserved.Union(a.reserved).Intersect(t.Online)
	machine, err := alloc.Compile(&described)
	if err != nil {
		return cpus, false, fmt.Errorf("no CPUs can be chosen on this machine: %w", err)
	}
	closed, where := t.Online.Difference(a.group.Intersect(a.inherited)), "this machine"
	if near := t.CPUsOf(mems); !near.IsEmpty() {
		closed, where = closed.Union(t.Online.Difference(near)), "NUMA nodes "+mems.String()
	}
	for _, h := range a.held {
		closed = closed.Union(h.cpus)
	}
	var scratch alloc.Scratch
	var no alloc.Refusal
	for _, try := range []struct {
		confined   cpuset.Set
		efficiency bool
	}{{a.confined, false}, {a.confined, true}, {cpuset.Set{}, true}} {
		var taken alloc.Taken
		taken.Withhold(closed.Union(try.confined))
		request := alloc.Request{Wants: []alloc.Want{{Name: "cpus", CPUs: n}}, EfficiencyCores: try.efficiency}
		var answer alloc.Answer
		if answer, no = machine.Allocate(&scratch, &taken, &request); no.Code == alloc.Placed {
			return answer.CPUs, answer.CPUs.Intersects(a.confined), nil
		}
	}
	open := machine.Pinnable().Difference(closed)
	return cpus, false, fmt.Errorf("does not fit: %s: of %s CPUs %q can be chosen, the rest is isolated, reserved, exclusive, or not among CPUs %s that this process was started with: --cpus LIST takes others", no.Detail(), where, open, a.inherited)
}
