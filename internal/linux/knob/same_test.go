package knob_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// TestSame has the notations of one value by kind of file, and values that differ.
func TestSame(t *testing.T) {
	const (
		requested = "/sys/devices/virtual/workqueue/cpumask_requested"
		receive   = "/sys/class/net/eth0/queues/rx-0/rps_cpus"
		interrupt = "/proc/irq/24/smp_affinity_list"
		preempt   = "/sys/kernel/debug/sched/preempt"
		huge      = "/sys/kernel/mm/transparent_hugepage/enabled"
		slice     = "/sys/kernel/debug/sched/base_slice_ns"
		ports     = "/proc/sys/net/ipv4/ip_local_port_range"
		pattern   = "/proc/sys/kernel/core_pattern"
	)
	for _, c := range []struct {
		file, a, b string
		want       bool
	}{
		{requested, "00000000,00000001\n", "1", true},
		{requested, "00000000,00000001\n", "2", false},
		{receive, "01\n", "1", true},
		{receive, "10\n", "1", false},
		{interrupt, "0-1\n", "0,1", true},
		{interrupt, "0-1\n", "0,2", false},
		{preempt, "none voluntary (full)\n", "full", true},
		{preempt, "none (voluntary) full\n", "full", false},
		{huge, "always [madvise] never\n", "madvise", true},
		{huge, "[always] madvise never\n", "madvise", false},
		{huge, "madvise\n", "madvise", true},
		{slice, "2999999\n", "3000000", true},
		{slice, "2800000\n", "3000000", false},
		{ports, "32768\t60999\n", "32768 60999", true},
		{ports, "32768\t61000\n", "32768 60999", false},
		{pattern, "[core] (x)\n", "core", false}, // the text of a sysctl is no choice
		{"/proc/sys/vm/stat_interval", "01\n", "1", false},
	} {
		if got := knob.Same(c.file, c.a, c.b); got != c.want {
			t.Errorf("%s: %q and %q the same: %t, want %t", c.file, c.a, c.b, got, c.want)
		}
	}
}

// TestSameIsAnEquality: on every file, Same is reflexive and symmetric, and on files of CPUs it agrees with the sets.
func TestSameIsAnEquality(t *testing.T) {
	var files []string
	for _, k := range knob.Catalogue() {
		for _, p := range k.Places {
			files = append(files, strings.NewReplacer("[0-9]*", "3", "*", "eth0").Replace(p.File))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		file := rapid.SampledFrom(files).Draw(t, "file")
		text := rapid.StringMatching(`[0-9a-f,\-\[\]() ]{0,9}`)
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		if !knob.Same(file, a, a) || knob.Same(file, a, b) != knob.Same(file, b, a) {
			t.Fatalf("%s: %q, %q: no equality", file, a, b)
		}
		_, at, found := knob.At(file)
		if !found {
			t.Fatalf("%s is not in the catalogue", file)
		}
		left, errLeft := cpuset.ParseMask(a)
		right, errRight := cpuset.ParseMask(b)
		if at.Mask && errLeft == nil && errRight == nil && knob.Same(file, a, b) != (left == right) {
			t.Fatalf("%s: %q, %q: masks of %s and %s", file, a, b, left, right)
		}
	})
}
