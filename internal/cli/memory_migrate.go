package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/table"
)

const (
	// mostRate is the highest --rate, the same as for maxBandwidthMiBps in the agent's file.
	mostRate = 65536
	// passLook is the interval at which a manual pass is checked.
	passLook = 200 * time.Millisecond
)

// Reasons why a manual pass is impossible.
var (
	errNoTrace     = errors.New("not permitted to look at the pages of other processes")
	errForeignMems = errors.New("its cpuset.mems lacks the nodes that its pages should move to")
)

// memoryPass is the result of one manual pass.
type memoryPass struct {
	Outcome locality.Outcome `json:"outcome"`
	DryRun  bool             `json:"dryRun,omitempty"`
	Moved   []movedPages     `json:"moved"`
	// Exited are processes that ended while the pass read them.
	Exited   []int    `json:"exited"`
	Calls    int      `json:"calls"`
	Seconds  float64  `json:"seconds"`
	Pauses   int      `json:"pauses"`
	Warnings []string `json:"warnings"`
}

// movedPages is the memory that moved from one node to another, by page size.
type movedPages struct {
	From         int   `json:"from"`
	To           int   `json:"to"`
	BaseBytes    int64 `json:"baseBytes"`
	HugeBytes    int64 `json:"hugeBytes"`
	HugeTLBBytes int64 `json:"hugetlbBytes"`
}

// migrateFlags are the flags of berth memory migrate.
type migrateFlags struct {
	memoryFlags

	to     string
	rate   int64
	dryRun bool
}

func newMemoryMigrateCommand(g *globals) *cobra.Command {
	var f migrateFlags
	cmd := &cobra.Command{
		Use:   "migrate WORKLOAD | --pid PROCESS",
		Short: "Move the pages of one workload to the NUMA nodes of its CPUs, once",
		Long: `Moves anonymous, shared and huge pages of one workload from other NUMA nodes to those
of its CPUs, or to those of --to. It moves as many pages as the target has room for,
not faster than --rate. It leaves page cache. It also leaves pages that processes of other
groups have mapped, pages under a memory policy, and pages that the kernel cannot move;
the output counts these by reason.

With --pid it moves the pages of the process's group, which may hold no other process.
Ctrl-C stops it within one system call. Moved pages stay moved; there is nothing to put
back. The command needs root or CAP_SYS_PTRACE. It refuses a group whose pages the agent
is moving (exit code 4).`,
		Example: `  berth memory migrate redis --dry-run
  berth memory migrate redis --rate 1024
  berth memory migrate --pid 4711 --to 0`,
		Args:              f.args,
		ValidArgsFunction: f.complete(g),
		RunE: formatted(g, func(cmd *cobra.Command, args []string, format string) error {
			if err := f.check(cmd, g); err != nil {
				return err
			}
			return f.migrate(cmd, g, args, format)
		}),
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "move to these `NODES`, as 0 or 0-1, instead of those of its CPUs")
	cmd.Flags().Int64Var(&f.rate, "rate", 0, "move at most `MIB` a second, 0 for no limit (default: maxBandwidthMiBps of the agent's file)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "count what would move, and move nothing")
	return cmd
}

// args accepts a name or --pid.
func (f *migrateFlags) args(cmd *cobra.Command, args []string) error {
	if len(args) == 0 && !cmd.Flags().Changed("pid") {
		return usageError(fmt.Errorf("%s takes one workload name or --pid", cmd.CommandPath()))
	}
	return f.memoryFlags.args(cmd, args)
}

func (f *migrateFlags) check(cmd *cobra.Command, g *globals) error {
	if g.Root != "/" {
		return usageError(fmt.Errorf("--root %s: only allowed with berth memory show: pages move on this host only", g.Root))
	}
	if cmd.Flags().Changed("rate") && (f.rate < 0 || f.rate > mostRate) {
		return usageError(fmt.Errorf("--rate %d: allowed: 0..%d", f.rate, mostRate))
	}
	return nil
}

func (f *migrateFlags) migrate(cmd *cobra.Command, g *globals, args []string, format string) error {
	o, err := f.open(cmd, g)
	if err != nil {
		return err
	}
	defer o.close()
	if o.nodes.Memory().Size() < 2 {
		return fmt.Errorf("%w: this machine has one NUMA node with memory, %s: every page is local", ErrUnsupported, o.nodes.Memory())
	}
	t, err := f.target(o, args)
	if err != nil {
		return err
	}
	local, targets, err := f.local(o, t)
	if err != nil {
		return err
	}
	order := mover.Order{
		Key: t.name, Group: t.group, Local: local, Targets: targets, Nodes: o.nodes, Unused: o.unused(), Rate: o.limit << 20, DryRun: f.dryRun,
	}
	if cmd.Flags().Changed("rate") {
		order.Rate = f.rate << 20
	}
	p, err := o.pass(cmd.Context(), order, progressTo(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	r, err := o.report()
	if err != nil {
		return err
	}
	w, err := o.measure(t)
	if err != nil && !errors.Is(err, cgroup.ErrNoGroup) { // all its processes may have ended
		return err
	}
	w.see(p, order)
	r.Workloads = append(r.Workloads, w)
	if err := show(cmd.OutOrStdout(), format, r, r.print); err != nil {
		return err
	}
	return failure(cmd.Context(), p)
}

// target returns the group of the pass. The agent's own pass has precedence.
func (f *migrateFlags) target(o *memoryHost, args []string) (memoryTarget, error) {
	if f.pid > 0 {
		path, err := o.host.SoleGroup([]int{f.pid})
		if errors.Is(err, cgroup.ErrNotSole) {
			err = fmt.Errorf("%w: give it a group of its own, or name a workload", err)
		}
		if err != nil {
			return memoryTarget{}, err
		}
		t := memoryTarget{name: fmt.Sprintf("pid %d", f.pid), group: path}
		return t, o.idle(t.group)
	}
	all, err := o.chosen(args, 0)
	if err != nil {
		return memoryTarget{}, err
	}
	if all[0].waits != nil {
		return memoryTarget{}, fmt.Errorf("%s: %w", all[0].name, all[0].waits)
	}
	return all[0], o.idle(all[0].group)
}

// idle refuses a group if the agent moves pages in it, above it or below it.
func (o *memoryHost) idle(group string) error {
	for _, t := range o.targets {
		w := memoryWorkload{Left: map[string]int64{}}
		if err := w.take(t.sections); err != nil {
			return err
		}
		overlap := t.group == group || strings.HasPrefix(t.group, group+"/") || strings.HasPrefix(group, t.group+"/")
		if w.Phase == string(v1alpha1.MemoryLocalityInProgress) && t.group != "" && overlap {
			return fmt.Errorf("%w: the agent moves the pages of %s, group %q, at this moment: see berth memory show --watch", ErrDiffers, t.name, t.group)
		}
	}
	return nil
}

// local returns the nodes whose pages stay, and the targets: the nodes among them that the group may use.
func (f *migrateFlags) local(o *memoryHost, t memoryTarget) (local, targets cpuset.Set, err error) {
	group, err := o.host.Group(t.group)
	if err != nil {
		return local, targets, err
	}
	defer group.Close()
	local, err = f.desired(o, t.name, group)
	if err != nil {
		return local, targets, err
	}
	mems, err := group.EffectiveMems()
	if err != nil {
		return local, targets, err
	}
	if targets = local.Intersect(mems); targets.IsEmpty() {
		return local, targets, fmt.Errorf("%s: %w: it has %s, and not %s", t.name, errForeignMems, mems, local)
	}
	return local, targets, nil
}

// desired returns the nodes of --to, or else the nodes of the CPUs.
func (f *migrateFlags) desired(o *memoryHost, name string, group *cgroup.Group) (cpuset.Set, error) {
	all := o.nodes.Memory()
	if f.to != "" {
		local, err := cpuset.Parse(f.to)
		if err != nil || local.IsEmpty() || !local.Difference(all).IsEmpty() || local == all {
			return cpuset.Set{}, usageError(errors.Join(fmt.Errorf("--to %q: allowed: some of the nodes %s and not all", f.to, all), err))
		}
		return local, nil
	}
	cpus, err := group.EffectiveCPUs()
	if err != nil {
		return cpuset.Set{}, err
	}
	local, err := o.nodes.Local(cpus)
	if errors.Is(err, locality.ErrNoTarget) {
		return cpuset.Set{}, usageError(fmt.Errorf("%s: %w: its CPUs, %s, are on all nodes: allowed: --to with some of the nodes %s", name, err, cpus, all))
	}
	return local, err
}

// pass makes a mover execute the order and returns its report. When ctx ends, the pass ends within one system call.
func (o *memoryHost) pass(ctx context.Context, order mover.Order, progress func(string)) (mover.Report, error) {
	began := time.Now()
	m := mover.New(mover.Options{
		Root: o.root, Host: o.host, Log: slog.New(slog.DiscardHandler),
		Clock: func() time.Duration { return time.Since(began) },
	})
	running, stop := context.WithCancel(ctx)
	defer stop()
	m.Order(order)
	work := errgroup.Group{}
	work.Go(func() error { return m.Run(running) })
	work.Go(func() error {
		defer stop()
		return watchPass(running, m, progress)
	})
	err := work.Wait()
	all := m.Reports()
	if err != nil || len(all) == 0 {
		return mover.Report{}, err //nolint:wrapcheck // both are ours
	}
	return all[0], nil
}

// watchPass returns when the pass of m is done.
func watchPass(ctx context.Context, m *mover.Mover, progress func(string)) error {
	ticker := time.NewTicker(passLook)
	defer ticker.Stop()
	shown := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, r := range m.Reports() {
			if r.Phase == mover.Done {
				return nil
			}
			if time.Since(shown) >= 2*time.Second {
				progress(fmt.Sprintf("%s: %s moved, %s a second %s", r.Phase, sizeText(r.Bytes()), sizeText(int64(r.Rate)), r.Reason))
				shown = time.Now()
			}
		}
	}
}

// failure returns the error of a pass that failed.
func failure(ctx context.Context, r mover.Report) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err() //nolint:wrapcheck // Run says "interrupted"
	case errors.Is(r.Err, mover.ErrMems):
		return fmt.Errorf("%s: %w: %v", r.Key, errForeignMems, r.Err) //nolint:errorlint // a permission error below it would count as a right that is missing
	case errors.Is(r.Err, mover.ErrRights), errors.Is(r.Err, fs.ErrPermission):
		return fmt.Errorf("%s: %w: run it as root, or with CAP_SYS_PTRACE: %w", r.Key, errNoTrace, r.Err)
	case r.Err != nil:
		return fmt.Errorf("%s: %w", r.Key, r.Err)
	}
	return nil
}

// see copies the result of a manual pass.
func (w *memoryWorkload) see(r mover.Report, order mover.Order) {
	p := &memoryPass{
		Outcome: r.Outcome, DryRun: order.DryRun, Moved: []movedPages{}, Exited: []int{}, Calls: r.Calls,
		Seconds: (r.Ended - r.Started).Seconds(), Pauses: r.Pauses, Warnings: slices.Concat([]string{}, r.Warnings),
	}
	for _, m := range r.Moved {
		p.Moved = append(p.Moved, movedPages{m.From, m.To, m.Base, m.Huge, m.HugeTLB})
	}
	for _, e := range r.Exited {
		p.Exited = append(p.Exited, e.PID)
	}
	for why, n := range r.Left {
		w.Left[string(why)] = n
	}
	w.Pass = p
}

// write prints what moved, below the tables.
func (p *memoryPass) write(b *table.Page) {
	if p == nil {
		return
	}
	rows := [][]string{{"FROM", "TO", "PAGES", "HUGE PAGES", "POOL PAGES"}}
	for _, m := range p.Moved {
		rows = append(rows, []string{fmt.Sprint(m.From), fmt.Sprint(m.To), sizeText(m.BaseBytes), sizeText(m.HugeBytes), sizeText(m.HugeTLBBytes)})
	}
	printRows(b, rows)
	b.WriteByte('\n')
	b.Line("%s in %.1f s, %d calls, %d pauses", p.Outcome, p.Seconds, p.Calls, p.Pauses)
	if p.DryRun {
		b.WriteString("(dry run: nothing was moved)\n")
	}
	if len(p.Exited) > 0 {
		b.Line("processes that ended meanwhile: %s", strings.Trim(fmt.Sprint(p.Exited), "[]"))
	}
	for _, warning := range p.Warnings {
		b.Line("warning: %s", warning)
	}
}
