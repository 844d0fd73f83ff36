package bench

import "github.com/berth-project/berth/internal/value/unit"

// The constants of the emulated loop.
const (
	koordinatorStep = 1.2
	koordinatorCap  = 3.0
)

// Emulation is the state of Koordinator's quota loop for one container: the last written value. It has Koordinator's
// defaults: policy cfsQuotaBurstOnly, at most 300 % of the base quota, no limiter, node below its threshold.
type Emulation struct {
	base, quota unit.Micros
}

// newEmulation starts the loop for a container with its base quota.
func newEmulation(base unit.Micros) *Emulation { return &Emulation{base: base, quota: base} }

// Tick is one reconciliation, due every second. throttled is true if the last sample counted a throttled period. Tick
// returns the desired quota and whether it differs from the last one. The quota never decreases: the loop has no decay.
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
