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
	for _, name := range names {
		file, err := p.fileOf(group, controller, name)
		if err != nil {
			return err
		}
		if err := p.watchFile(file); err != nil {
			return err
		}
	}
	if controller == cgroup.CPUSet {
		return p.watchLists(group)
	}
	return nil
}

// watchLists notes which lists have the effect of the group's empty lists.
func (p *proof) watchLists(path string) error {
	group, err := p.host.Group(path, cgroup.CPUSet)
	if err != nil {
		return fmt.Errorf("group %q: %w", path, err)
	}
	defer group.Close()
	for name, knob := range map[string]cgroup.Knob{"cpuset.cpus": cgroup.KnobCPUs, "cpuset.mems": cgroup.KnobMems} {
		for i, f := range p.files {
			if f.Before == "" && strings.HasSuffix(f.File, "/"+path+"/"+name) {
				p.files[i].unlimited = string(group.Unlimited(knob))
			}
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
func (p *proof) again(put func(f *FileProof, now string)) error {
	for i := range p.files {
		now, err := p.read(p.files[i].File)
		if err != nil {
			return err
		}
		put(&p.files[i], now)
	}
	return nil
}

func (p *proof) during() error { return p.again(func(f *FileProof, now string) { f.During = now }) }

func (p *proof) after() error {
	return p.again(func(f *FileProof, now string) {
		f.After = now
		f.Restored = f.restored()
	})
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
