package cli

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/localize"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/node/roster"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// memoryTarget is a workload, or the group of a process.
type memoryTarget struct {
	name  string
	group string
	// waits is why the workload has no group.
	waits error
	// sections are the agent's report about the workload.
	sections capability.Sections
}

// memoryHost is the host that berth memory reads.
type memoryHost struct {
	root  *hostfs.Root
	host  *cgroup.Host
	nodes locality.Nodes
	// targets are all known workloads.
	targets []memoryTarget
	// limit is maxBandwidthMiBps from the agent's file.
	limit int64
	close func()
}

// open reads the machine and lists the workloads: from the running agent, or else from workloadDir.
func (f *memoryFlags) open(cmd *cobra.Command, g *globals) (*memoryHost, error) {
	root, closed, err := g.openReading()
	if err != nil {
		return nil, err
	}
	o := &memoryHost{root: root, close: closed}
	if err := o.discover(); err != nil {
		closed()
		return nil, g.hostError(err)
	}
	if err := o.find(cmd, f.config); err != nil {
		closed()
		return nil, err
	}
	return o, nil
}

// discover reads the hardware and the control groups.
func (o *memoryHost) discover() error {
	t, err := topology.Discover(o.root.FS())
	if err != nil {
		return fmt.Errorf("machine: %w", err)
	}
	if o.nodes, err = mover.Nodes(o.root, t); err != nil {
		return err
	}
	if o.host, err = cgroup.Open(o.root); err != nil {
		return fmt.Errorf("find cgroups: %w", err)
	}
	if _, err := o.host.Hierarchy(cgroup.MemoryController); err != nil {
		return fmt.Errorf("where pages are is counted by control group: %w", err)
	}
	return nil
}

// find lists the workloads.
func (o *memoryHost) find(cmd *cobra.Command, config string) error {
	cfg, err := loadState(cmd, config)
	if err != nil {
		return err
	}
	o.limit = *cfg.Locality.MaxBandwidthMiBps
	_, alive, err := journal.Holder(cfg.StateDir)
	if err != nil {
		return fmt.Errorf("stateDir: %w", err)
	}
	if alive {
		seen, err := look(cmd.Context(), cfg.StateDir, alive)
		if err != nil {
			return fmt.Errorf("stateDir: %w", err)
		}
		for _, w := range seen.Statuses() {
			o.targets = append(o.targets, memoryTarget{w.Name, w.Group, waiting(w), w.Sections})
		}
		return nil
	}
	if cfg.WorkloadDir == "" {
		return nil
	}
	loaded, err := manifest.LoadWorkloads(cfg.WorkloadDir, manifest.Before{}, workload.AdministratorOf(config, cfg))
	if err != nil {
		return fmt.Errorf("workloadDir: %w", err)
	}
	for _, w := range loaded.Ready {
		path, err := roster.Locate(o.host, &w)
		o.targets = append(o.targets, memoryTarget{name: w.Name, group: path, waits: err})
	}
	for _, p := range loaded.Pending {
		o.targets = append(o.targets, memoryTarget{name: p.Workload.Name, waits: p.Reason})
	}
	return nil
}

// waiting returns why a workload of an agent has no group.
func waiting(w view.Status) error {
	if w.Group != "" {
		return nil
	}
	return fmt.Errorf("has no group: %s", cmp.Or(w.Reason, string(w.State)))
}

// chosen returns the targets that the command line names, or all without a name.
func (o *memoryHost) chosen(args []string, pid int) ([]memoryTarget, error) {
	if pid > 0 {
		path, err := o.host.PathOf(pid)
		if err == nil && path == "" {
			err = fmt.Errorf("process %d is in the root group, where no memory is counted apart", pid)
		}
		return []memoryTarget{{name: fmt.Sprintf("pid %d", pid), group: path}}, err
	}
	if len(args) == 0 {
		return o.targets, nil
	}
	var names []string
	for _, t := range o.targets {
		if t.name == args[0] {
			return []memoryTarget{t}, nil
		}
		names = append(names, t.name)
	}
	return nil, usageError(fmt.Errorf("workload %q is not known: allowed: %s", args[0], cmp.Or(joined(names), "--pid PROCESS, as no workload is known")))
}

// report reads the nodes.
func (o *memoryHost) report() (memoryReport, error) {
	r := memoryReport{Nodes: []memoryNode{}, Workloads: []memoryWorkload{}}
	now, err := mover.Memory(o.root, o.nodes)
	if err != nil {
		return r, err
	}
	unused := o.unused()
	for _, n := range o.nodes {
		if at, ok := now[n.ID]; ok {
			r.Nodes = append(r.Nodes, memoryNode{n.ID, at.Free, at.Room(unused[n.ID])})
		}
	}
	return r, nil
}

// unused returns, for each node, how much more memory the workloads that are bound to the node may use by their limits.
func (o *memoryHost) unused() observed.Bytes {
	var all []observed.Workload
	for _, t := range o.targets {
		if t.waits == nil {
			all = append(all, observed.Workload{Name: t.name, Group: t.group, Bound: true})
		}
	}
	bytes := localize.Unused(o.host, all, o.nodes)
	for _, n := range o.nodes {
		bytes = append(bytes, make(observed.Bytes, max(0, n.ID+1-len(bytes)))...)
	}
	return bytes
}

// measure counts the pages of a target by node.
func (o *memoryHost) measure(t memoryTarget) (memoryWorkload, error) {
	w := memoryWorkload{Name: t.name, Group: t.group, BytesByNode: map[string]int64{}, Left: map[string]int64{}}
	if t.waits != nil {
		return w, t.waits
	}
	group, err := o.host.Group(t.group)
	if err != nil {
		return w, err
	}
	defer group.Close()
	memory, err := group.Memory()
	if err != nil {
		return w, err
	}
	defer memory.Close()
	at, err := memory.ByNode()
	if err != nil {
		return w, err
	}
	cpus, err := group.EffectiveCPUs()
	if err != nil {
		return w, err
	}
	local := o.local(cpus)
	m := locality.Memory{Movable: at.Movable, File: at.File}
	w.LocalNodes, w.Ratio, w.RemotePages = local.String(), m.Ratio(local), m.Remote(local)/pageSize()
	for id := range o.nodes.Memory().All() {
		w.BytesByNode[strconv.Itoa(id)] = 0
	}
	for id, n := range m.Movable {
		if _, has := w.BytesByNode[strconv.Itoa(id)]; has || n > 0 {
			w.BytesByNode[strconv.Itoa(id)] = n
		}
	}
	return w, w.take(t.sections)
}

// local returns the memory nodes of the CPUs. It returns all nodes if no node is better than another.
func (o *memoryHost) local(cpus cpuset.Set) cpuset.Set {
	local, err := o.nodes.Local(cpus)
	if err != nil {
		return o.nodes.Memory()
	}
	return local
}

// take copies the agent's report about the workload.
func (w *memoryWorkload) take(sections capability.Sections) error {
	m, err := localize.Reported(sections)
	if err != nil {
		return fmt.Errorf("report of the agent: %w", err)
	}
	if m == nil {
		return nil
	}
	w.Phase = m.Phase
	for why, n := range m.Left {
		w.Left[string(why)] = n
	}
	return nil
}
