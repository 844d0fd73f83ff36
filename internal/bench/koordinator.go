package bench

import "github.com/berth-project/berth/internal/unit"

// The constants of the emulated loop.
const (
	koordinatorStep = 1.2
	koordinatorCap  = 3.0
)

// Emulation is the state of Koordinator's quota loop for one container: the
// value it last wrote. Its defaults are meant: policy cfsQuotaBurstOnly, at
// most 300 % of the base quota, no limiter, node below its threshold.
type Emulation struct {
	base, quota unit.Micros
}

// NewEmulation starts the loop for a container that stands at its base quota.
func NewEmulation(base unit.Micros) *Emulation { return &Emulation{base: base, quota: base} }

// Tick is one reconciliation, due every second. throttled says whether the
// last sample counted a throttled period. It returns the quota that should
// stand and whether that is a write. The quota never sinks: the loop has no
// decay.
func (e *Emulation) Tick(throttled bool) (quota unit.Micros, write bool) {
	if !throttled {
		return e.quota, false
	}
	most := unit.Micros(float64(e.base) * koordinatorCap)
	next := min(unit.Micros(float64(e.quota)*koordinatorStep), most)
	write = next != e.quota
	e.quota = next
	return next, write
}
