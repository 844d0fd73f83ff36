package headroom_test

import (
	"math"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/headroom"
	"github.com/berth-project/berth/internal/value/unit"
)

// seconds returns CPU time.
func seconds(n float64) unit.CPUTime { return unit.CPUSeconds(n).Time() }

// TestPoolSample checks that the use of a pool omits what its own groups did not use, and is never negative.
func TestPoolSample(t *testing.T) {
	p := headroom.Pool{Threshold: 0.5, CPUs: 4}
	if !p.Unknown() || !math.IsNaN(p.Use()) {
		t.Error("known before the first sample")
	}
	p.Sample(10*time.Second, seconds(1000), 0)
	if !p.Unknown() {
		t.Error("known after one sample")
	}
	for _, c := range []struct {
		at          time.Duration
		busy, apart float64
		want        float64
	}{
		{11 * time.Second, 1003, 1, 0.5},
		{12 * time.Second, 1004, 3, 0.25}, // more apart than used counts as zero
		{12 * time.Second, 1009, 0, 0.25}, // no time has passed
	} {
		p.Sample(c.at, seconds(c.busy), seconds(c.apart))
		if got := p.Use(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("use %v at %s, want %v", got, c.at, c.want)
		}
	}
}

// TestPoolSampleOfShortRounds checks that rounds within half a second count as one sample. The kernel counts the use of
// the machine in ticks and that of groups exactly. Over a shorter time the difference is noise, of which negative
// values would be cut off.
func TestPoolSampleOfShortRounds(t *testing.T) {
	p := headroom.Pool{Threshold: 0.5, CPUs: 4}
	const online, offline = 0.1, 2.0 // CPUs
	at, before := 10*time.Second, 10*time.Second
	for i := range 400 {
		const tick = 4 * 10 * time.Millisecond // of four CPUs at once
		busy := time.Duration((online + offline) * float64(at)).Truncate(tick)
		p.Sample(at, seconds(busy.Seconds()), seconds(offline*(at-before).Seconds()))
		before = at
		if at += 50 * time.Millisecond; i%4 == 3 {
			at += 753 * time.Millisecond
		}
	}
	if got, want := p.Use(), online/4; math.Abs(got-want) > want/20 {
		t.Errorf("use %v, want %v", got, want)
	}
}
