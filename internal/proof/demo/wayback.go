package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/bench"
)

// proof follows files that Berth may change. A part watches them before Berth begins.
type proof struct {
	host  *cgroup.Host
	files []FileProof
}

// bandwidthFiles returns all files through which a CPU limit can change, of either version of cgroups.
func bandwidthFiles() []string {
	return []string{"cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.max", "cpu.max.burst"}
}

// watch adds the present content of a group's files. It leaves out files that this kernel lacks.
func (p *proof) watch(group string, controller cgroup.Controller, names ...string) error {
	lists := map[string]cgroup.Knob{"cpuset.cpus": cgroup.KnobCPUs, "cpuset.mems": cgroup.KnobMems}
	for _, name := range names {
		file, err := p.fileOf(group, controller, name)
		if err != nil {
			return err
		}
		had := len(p.files)
		if err := p.watchFile(file); err != nil {
			return err
		}
		for i := range p.files[had:] {
			p.files[had+i].group, p.files[had+i].list = group, lists[name]
		}
	}
	return nil
}

// fileOf returns the path of a group's file.
func (p *proof) fileOf(group string, controller cgroup.Controller, name string) (string, error) {
	hierarchy, err := p.host.Hierarchy(controller)
	if err != nil {
		return "", fmt.Errorf("%s of %s: %w", name, group, err)
	}
	return hierarchy.Mount + "/" + group + "/" + name, nil
}

// watchFile adds one file, unless this kernel lacks it.
func (p *proof) watchFile(file string) error {
	text, err := p.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	p.files = append(p.files, FileProof{File: p.host.Root().Join(file), Before: text})
	return err
}

func (p *proof) read(file string) (string, error) {
	text, err := p.host.Root().ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// again reads all files again.
func (p *proof) again(put func(f *FileProof, now string) error) error {
	for i := range p.files {
		now, err := p.read(p.files[i].File)
		if err != nil {
			return err
		}
		if err := put(&p.files[i], now); err != nil {
			return err
		}
	}
	return nil
}

func (p *proof) during() error {
	return p.again(func(f *FileProof, now string) error {
		f.During = now
		return nil
	})
}

func (p *proof) after() error {
	return p.again(func(f *FileProof, now string) (err error) {
		f.After = now
		f.Restored, err = p.restored(f)
		return err
	})
}

// restored reports whether a file is as before, or a list that was empty has its effect. Where a partition is beside
// the group, Berth restores a list of all other CPUs.
func (p *proof) restored(f *FileProof) (bool, error) {
	if f.After == f.Before || f.Before != "" || f.list == "" {
		return f.After == f.Before, nil
	}
	group, err := p.host.Group(f.group, cgroup.CPUSet)
	if err != nil {
		return false, fmt.Errorf("group %q: %w", f.group, err)
	}
	defer group.Close()
	now := cgroup.Value(f.After)
	if cgroup.IsUnlimited(group, f.list, now) {
		return true, nil
	}
	all := group.Unlimited(f.list)
	if f.list != cgroup.KnobCPUs || all == cgroup.Inherit || f.After == f.During {
		return false, nil // Spare returns the present list if it finds no other.
	}
	return cgroup.Same(f.list, now, cgroup.Spare(group, all)), nil
}

// changed returns the files that Berth changed, or that differ now.
func (p *proof) changed() []FileProof {
	var files []FileProof
	for _, f := range p.files {
		if f.During != f.Before || f.After != f.Before {
			files = append(files, f)
		}
	}
	return files
}

// wayBack kills the agent, rolls back with the command that a user would use, and reads the files.
func (p *proof) wayBack(ctx context.Context, progress func(string), agent *bench.Agent) error {
	progress("killing the agent, then rolling back")
	if err := agent.Kill(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if err := p.during(); err != nil {
		return err
	}
	if _, err := bench.Command(ctx, "rollback", "--config", agent.Config()); err != nil {
		return fmt.Errorf("rollback: %w", err)
	}
	return p.after()
}
