package cgroupfile

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// writeQuantity writes a quota or a burst. If the ratio of the new and the present period is a power of two, it writes
// the value at the present period. Quota, period and burst of the group then have one scale.
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

// stands reads a value back after a write.
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

// burstAtStake returns the bandwidth before a write to cpu.max, which may cost the group its burst. It returns nothing
// for any other write.
func burstAtStake(g *cgroup.Group, k cgroup.Knob) (cgroup.Bandwidth, error) {
	if k != cgroup.KnobMax {
		return cgroup.Bandwidth{}, nil
	}
	return g.Bandwidth()
}

// keepBurst restores a burst that a write to cpu.max divided by 1000. cgroup v2 kernels do that from 5.14 on, without
// the fix of 2024: cpu_max_write() reads the present burst in microseconds and passes it to tg_set_cfs_bandwidth(),
// which expects nanoseconds. Only exactly that burst is the kernel's fault; any other burst is another writer's and
// stays. Every burst stays on a kernel with the fix, and on v1, which has a file for each number.
//
// The restored burst is not a change of Berth's and has no journal entry: it was in effect an instant ago. The journal
// also recognizes the divided value of a burst that has an entry, in case of a crash before the burst is restored.
//
// The kernels with the fault also accept a quota below the burst, because they compare it with the divided burst. Then
// the burst cannot be restored. keepBurst rolls the quota back and returns the error that other kernels return.
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
