package plan_test

import (
	"fmt"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// A container's limit doubles: in which order does the kernel take the writes?
func ExampleOrder() {
	for _, change := range plan.Order(cgroupfile.Values(), []plan.Change{
		changed("pod/web", "100000 100000", "200000 100000"),
		changed("pod", "150000 100000", "250000 100000"),
	}) {
		fmt.Println(change)
	}
	// Output:
	// pod cpu.max: 150000 100000 -> 250000 100000
	// pod/web cpu.max: 100000 100000 -> 200000 100000
}

func changed(group string, from, value plan.Value) plan.Change {
	target := cgroupfile.Target(group, cgroup.KnobMax)
	return plan.Change{Setting: plan.Setting{Target: target, Value: value}, From: from}
}
