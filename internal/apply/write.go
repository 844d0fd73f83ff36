package apply

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostwrite"
	"github.com/berth-project/berth/internal/plan"
)

// write writes c.Value over c.From and reads it back. The value goes out at
// the period in force where one is the other doubled, which leaves quota,
// period and burst of the group in one scale.
func (a *Applier) write(g *cgroup.Group, c plan.Change, written, verified Step) (cgroup.Value, bool, error) {
	if c.Knob.Controller() == cgroup.CPUSet {
		return a.writeList(g, c, written, verified)
	}
	value := c.Value
	if _, period, err := c.From.Pair(); err == nil {
		value = cgroup.ScaleTo(value, period)
	}
	before, err := burstAtStake(g, c)
	if err != nil {
		return c.From, false, a.classify(c.Target, err)
	}
	if err := put(g, c.Knob, value); err != nil {
		return c.From, false, a.classify(c.Target, a.explain(g, c.Knob, value, err))
	}
	a.step(written, c.Target)
	if err := a.keepBurst(g, before); err != nil {
		return "", true, a.classify(c.Target, err)
	}
	effective, err := g.Read(c.Knob)
	if err != nil {
		return "", true, a.classify(c.Target, err)
	}
	a.step(verified, c.Target)
	if !cgroup.Same(c.Knob, effective, value) {
		return effective, true, fmt.Errorf("wrote %s, the kernel has %s: %w", value, effective, ErrNotEffective)
	}
	return effective, true, nil
}

// put writes a value, as it is encoded for the group's version.
func put(g *cgroup.Group, k cgroup.Knob, v cgroup.Value) error {
	dir, file, content, err := g.Encode(k, v)
	if err != nil {
		return err
	}
	return hostwrite.Existing(dir, file, content)
}

// burstLost is by what a write to cpu.max divides the burst on the kernels that
// keepBurst is for.
const burstLost = 1000

// burstAtStake returns what stands before a write to cpu.max that may cost the
// group its burst, and nothing for any other write.
func burstAtStake(g *cgroup.Group, c plan.Change) (cgroup.Bandwidth, error) {
	if c.Knob != cgroup.KnobMax {
		return cgroup.Bandwidth{}, nil
	}
	return g.Bandwidth()
}

// keepBurst puts a burst back that the write to cpu.max divided by 1000. That is
// what cgroup v2 kernels do from 5.14 on without the fix of 2024: cpu_max_write()
// takes the burst in force, in microseconds, and hands it to
// tg_set_cfs_bandwidth(), which takes nanoseconds. Any other burst than exactly
// that one is somebody's hand and is left alone, as is every burst on a kernel
// with the fix, and on v1, which has a file for each number.
//
// It is not a change of Berth's and has no record in the journal: it restores
// what stood an instant ago. A burst that has an entry is known to the journal
// divided, too, for a crash before this.
//
// The kernels with the fault also take a quota below the burst, because they
// compare it with the divided one. The burst cannot be put back then. So the
// quota is taken back, and the answer is the one of every other kernel.
func (a *Applier) keepBurst(g *cgroup.Group, before cgroup.Bandwidth) error {
	if before.Burst == 0 {
		return nil
	}
	after, err := g.Bandwidth()
	if err != nil || after.Burst == before.Burst || after.Burst != before.Burst/burstLost {
		return err
	}
	err = put(g, cgroup.KnobBurst, cgroup.BurstValue(before.Burst, after.Period))
	if errors.Is(err, syscall.EINVAL) {
		refused := a.explain(g, cgroup.KnobMax, after.Max(), err)
		return errors.Join(refused, put(g, cgroup.KnobMax, before.Max()), put(g, cgroup.KnobBurst, before.BurstValue()))
	}
	if err != nil {
		return fmt.Errorf("put back the burst of %d µs, which the kernel made %d µs: %w", before.Burst, after.Burst, err)
	}
	if after, err = g.Bandwidth(); err == nil && after.Burst != before.Burst {
		err = fmt.Errorf("put back the burst of %d µs, the kernel has %d µs: %w", before.Burst, after.Burst, ErrNotEffective)
	}
	return err
}
