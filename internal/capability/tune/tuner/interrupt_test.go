package tuner

import (
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/driver/irq"
	"github.com/berth-project/berth/internal/engine/plan"
)

// An interrupt that another CPU still serves is pending until it fires, and ignored afterwards. Without a count of its
// firings it is ignored.
func TestPendingInterrupt(t *testing.T) {
	t.Parallel()
	const file = "/proc/irq/25/smp_affinity_list"
	host := func(effective, count string) fstest.MapFS {
		tree := fstest.MapFS{}
		for name, text := range map[string]string{
			"proc/irq/25/smp_affinity_list": "0", "proc/irq/25/effective_affinity_list": effective,
			"sys/kernel/irq/25/per_cpu_count": count, "sys/devices/system/cpu/online": "0-1",
		} {
			if text != "" {
				tree[name] = &fstest.MapFile{Data: []byte(text + "\n")}
			}
		}
		return tree
	}
	settings := []Setting{{Knob: "irq.affinity", Instance: "25", File: file, Want: "0", Target: plan.Target{Driver: irq.Driver, Object: "proc/irq/25", Knob: "smp_affinity_list"}}}
	for name, c := range map[string]struct {
		before, count, effective string
		want                     tune.State
	}{
		"moved":            {"3,4", "3,4", "0", tune.OK},
		"not fired":        {"3,4", "3,4", "1", tune.Pending},
		"fired":            {"3,4", "3,5", "1", tune.Ignored},
		"made again":       {"3,4", "0,0", "1", tune.Ignored},
		"was not counted":  {"", "3,4", "1", tune.Ignored},
		"cannot be":        {"3,4", "", "1", tune.Ignored},
		"not a number":     {"3,4", "3,x", "1", tune.Ignored},
		"counted wrongly":  {"3,x", "3,4", "1", tune.Ignored},
		"moved since then": {"3,4", "3,5", "0", tune.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := Applied{Settings: settings, Fired: fired(host("1", c.before), settings)}
			rows := a.Verify(host(c.effective, c.count), Kernel{}, nil)
			if len(rows) != 1 || rows[0].State != c.want || rows[0].Differs() != (c.want == tune.Ignored) {
				t.Errorf("%+v, want %s", rows, c.want)
			}
		})
	}
}
