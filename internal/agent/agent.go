package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/localize/narrowing"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/unit"
)

// ErrReadOnly means that this host cannot be changed from here: its cgroup hierarchy is mounted read-only, or the
// caller may not write to it.
var ErrReadOnly = errors.New("cgroup files cannot be written")

// ErrLeftBehind means that another writer changed a value, which was therefore not restored.
var ErrLeftBehind = errors.New("values of others were left as they are")

// ErrNotRestored means that the kernel or the disk refused an original. berth rollback tries again.
var ErrNotRestored = errors.New("originals could not be put back")

// Options is the input of the agent. Every field is required except Reload, KeepProfile, RestoreOnStop and HostIP.
type Options struct {
	// ConfigFile is the agent's file, read again on change and on Reload.
	ConfigFile string
	Config     v1alpha1.AgentConfig
	Version    string
	Root       *hostfs.Root
	// HostIP is an address of this host at which its kubelet listens, empty for the loopback address. It only matters
	// in a cluster.
	HostIP string
	// Clock is monotonic and counts from boot. Now is the time of day.
	Clock func() time.Duration
	Now   func() time.Time
	Log   *slog.Logger
	// Reload makes the agent read its files at once.
	Reload <-chan os.Signal
	// KeepProfile starts the process that undoes a host profile whose deadline has passed; nil starts nothing.
	KeepProfile func(tuner.Applied) error
	// RestoreOnStop makes the end restore all values, and report values that it could not restore.
	RestoreOnStop bool
	// BootID and facts describe the running kernel; Run fills them in.
	BootID string
	facts  hostFacts
	// boottime is CLOCK_BOOTTIME, nil for that of the kernel.
	boottime func() time.Duration
	// more are additional capabilities, for tests.
	more []capability.Capability
	// mover moves pages, nil for that of package mover. narrowing checks which groups may lose memory nodes, nil for
	// all.
	mover     pageMover
	narrowing *narrowing.Looks
	// settles restores values that no agent moves any more (orphans.go). It waits for systemd.
	settles *apply.Applier
}

// hostFacts are the facts of the running kernel that the control law needs.
type hostFacts struct {
	slice unit.Micros   // as of the last second
	tick  time.Duration // a constant
}

// Run runs the agent until ctx ends. It then restores quotas and bursts above the limits and returns. Run writes
// nothing on the host before it locks the journal and binds the address. In a cluster the address may be busy, and is
// bound once it is free.
func Run(ctx context.Context, opts Options) error {
	if err := opts.describeKernel(); err != nil {
		return err
	}
	host, err := cgroup.Open(opts.Root)
	if err != nil {
		return fmt.Errorf("find cgroups: %w", err)
	}
	if err := writable(host); err != nil {
		return err
	}
	if err := hasWorkloadDir(opts); err != nil {
		return err
	}
	// Lock before binding the address: of two agents that share both, the second reports the first.
	j, err := journal.Open(opts.Config.StateDir, opts.BootID, driver.Values())
	if errors.Is(err, journal.ErrDamaged) {
		return fmt.Errorf("stateDir: %w: berth rollback puts back what can be read and sets the file aside", err)
	}
	if err != nil {
		return fmt.Errorf("stateDir: %w", err)
	}
	w, err := opts.openWindow(ctx)
	if err != nil {
		return errors.Join(err, j.Close())
	}
	for _, note := range j.Recovery().Notes() {
		opts.Log.Warn("journal", "note", note)
	}
	settles, settled := settling(opts, host, j)
	defer settled()
	opts.settles = settles
	putBackOrphans(opts, j, settles)
	units := systemd.Find()
	opts.narrowing = narrowing.OnHost(opts.Root, host, opts.Clock)
	aside := cgroupfile.NewAside(opts.narrowing.May)
	c := newController(opts, host, j, writing{
		applier: newApplier(opts, host, j, units, aside), systemd: units != nil, units: units, aside: aside,
	})
	if err := c.joinCluster(); err != nil {
		return errors.Join(err, w.Close(), j.Close())
	}
	opts.Log.Info("agent started", "version", opts.Version, "cgroup", host.Layout(),
		"listen", opts.Config.Listen, "stateDir", opts.Config.StateDir)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.serve(ctx, w) })
	group.Go(func() error { return c.run(ctx) })
	group.Go(func() error { return c.windows.recorder.Run(ctx) })
	group.Go(func() error { return opts.narrowing.Run(ctx) })
	for _, one := range c.capabilities {
		if w, works := one.(worker); works {
			group.Go(func() error { return w.Run(ctx) })
		}
	}
	if c.cluster.connected != nil {
		group.Go(func() error { return c.cluster.connected.run(ctx, c) })
	}
	return errors.Join(group.Wait(), j.Close())
}

// newApplier returns the only writer of this host.
func newApplier(opts Options, host *cgroup.Host, j *journal.Journal, units *systemd.Later, aside *cgroupfile.Aside) *apply.Applier {
	var asked cgroupfile.Units // a nil interface without systemd, not a nil *Later in it
	if units != nil {
		asked = units
	}
	kinds := driver.Kinds(host, asked)
	maps.Copy(kinds, aside.Kinds(host, asked))
	return apply.New(kinds, j, apply.Options{Now: opts.Now, Records: units != nil, Held: heldByProfile(opts)})
}

// describeKernel reads the constants of the running kernel.
func (o *Options) describeKernel() error {
	var err error
	if o.BootID, err = kernel.BootID(o.Root); err != nil {
		return fmt.Errorf("describe kernel: %w", err)
	}
	if o.facts.slice, err = kernel.BandwidthSlice(o.Root); err != nil {
		return fmt.Errorf("describe kernel: %w", err)
	}
	o.facts.tick = kernel.Tick()
	if o.boottime == nil {
		o.boottime = kernel.Boottime
	}
	return nil
}

// readSlice reads how much quota the kernel gives to one CPU at a time. If it cannot, the old value stays.
func (o *Options) readSlice() {
	if now, err := kernel.BandwidthSlice(o.Root); err == nil {
		o.facts.slice = now
	}
}

// hasWorkloadDir returns an error if the directory is missing at the start. If the directory vanishes later, the last
// good workloads stay in force.
func hasWorkloadDir(opts Options) error {
	if opts.Config.WorkloadDir == "" {
		return nil // the pods of a cluster are the workloads
	}
	info, err := os.Stat(opts.Config.WorkloadDir)
	if err == nil && info.IsDir() {
		return nil
	}
	return v1alpha1.FieldErrors{{
		File: opts.ConfigFile, Field: "workloadDir", Value: v1alpha1.Show(opts.Config.WorkloadDir),
		Allowed: "a directory that exists",
	}}.Err()
}

// writable fails early if no write could succeed, instead of once for each group.
func writable(host *cgroup.Host) error {
	h, err := host.Hierarchy(cgroup.CPU)
	if err != nil {
		return fmt.Errorf("find the cpu controller: %w", err)
	}
	if h.ReadOnly {
		return fmt.Errorf("%w: %s is mounted read-only", ErrReadOnly, h.Mount)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w by user id %d: run it as root", ErrReadOnly, os.Geteuid())
	}
	return nil
}
