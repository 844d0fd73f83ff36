package cgroupfile

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/plan"
)

// writeQuantity writes a quota or a burst. The value goes out at the period in force
// where one is the other doubled, which leaves quota, period and burst of the group in
// one scale.
func (s *groups) writeQuantity(g *cgroup.Group, c plan.Change) (cgroup.Value, error) {
	k, value := Knob(c.Target), cgroup.Value(c.Value)
	if _, period, err := cgroup.Value(c.From).Pair(); err == nil {
		value = cgroup.ScaleTo(value, period)
	}
	before, err := burstAtStake(g, k)
	if err != nil {
		return "", err
	}
	if err := put(g, k, value); err != nil {
		return "", s.explain(g, k, value, err)
	}
	s.call.Written(c.Target)
	if err := s.keepBurst(g, before); err != nil {
		return "", err
	}
	return stands(g, k, value)
}

// stands reads back what was written.
func stands(g *cgroup.Group, k cgroup.Knob, value cgroup.Value) (cgroup.Value, error) {
	effective, err := g.Read(k)
	if err != nil {
		return "", err
	}
	if !cgroup.Same(k, effective, value) {
		return effective, fmt.Errorf("wrote %s, the kernel has %s: %w", value, effective, apply.ErrNotEffective)
	}
	return effective, nil
}

// burstAtStake returns what stands before a write to cpu.max that may cost the
// group its burst, and nothing for any other write.
func burstAtStake(g *cgroup.Group, k cgroup.Knob) (cgroup.Bandwidth, error) {
	if k != cgroup.KnobMax {
		return cgroup.Bandwidth{}, nil
	}
	return g.Bandwidth()
}

// keepBurst puts a burst back that the write to cpu.max divided by 1000. That is
// what cgroup v2 kernels do from 5.14 on without the fix of 2024: cpu_max_write()
// takes the burst in force, in microseconds, and hands it to
// tg_set_cfs_bandwidth(), which takes nanoseconds. Any other burst than exactly
// that one is another writer's and is left alone, as is every burst on a kernel
// with the fix, and on v1, which has a file for each number.
//
// It is not a change of Berth's and has no record in the journal: it restores
// what stood an instant ago. A burst that has an entry is known to the journal
// divided, too, for a crash before this.
//
// The kernels with the fault also take a quota below the burst, because they
// compare it with the divided one. The burst cannot be put back then. So the
// quota is taken back, and the answer is the one of every other kernel.
func (s *groups) keepBurst(g *cgroup.Group, before cgroup.Bandwidth) error {
	if before.Burst == 0 {
		return nil
	}
	after, err := g.Bandwidth()
	if err != nil || after.Burst == before.Burst || after.Burst != before.Burst/burstLost {
		return err
	}
	err = put(g, cgroup.KnobBurst, cgroup.BurstValue(before.Burst, after.Period))
	if errors.Is(err, syscall.EINVAL) {
		refused := s.explain(g, cgroup.KnobMax, after.Max(), err)
		return errors.Join(refused, put(g, cgroup.KnobMax, before.Max()), put(g, cgroup.KnobBurst, before.BurstValue()))
	}
	if err != nil {
		return fmt.Errorf("put back the burst of %d µs, which the kernel made %d µs: %w", before.Burst, after.Burst, err)
	}
	if after, err = g.Bandwidth(); err == nil && after.Burst != before.Burst {
		err = fmt.Errorf("put back the burst of %d µs, the kernel has %d µs: %w", before.Burst, after.Burst, apply.ErrNotEffective)
	}
	return err
}
