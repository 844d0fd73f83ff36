package alloc_test

import (
	"fmt"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// eightCores is a machine of two L3 domains, each with four cores of two threads.
const eightCores = `{"online":"0-15","l3":[{"id":0,"cpus":"0-7"},{"id":1,"cpus":"8-15"}],"cores":[
{"id":0,"cpus":"0-1"},{"id":2,"cpus":"2-3"},{"id":4,"cpus":"4-5"},{"id":6,"cpus":"6-7"},
{"id":8,"cpus":"8-9"},{"id":10,"cpus":"10-11"},{"id":12,"cpus":"12-13"},{"id":14,"cpus":"14-15"}]}`

// Where do four CPUs go on a partly occupied machine, and why?
func ExampleMachine_Allocate() {
	described, err := topology.Decode([]byte(eightCores))
	if err != nil {
		fmt.Println(err)
		return
	}
	machine, err := alloc.Compile(described)
	if err != nil {
		fmt.Println(err)
		return
	}
	var taken alloc.Taken
	others, _ := cpuset.Parse("0-3")
	machine.Hold(&taken, alloc.Holding{CPUs: others})

	var scratch alloc.Scratch
	answer, refusal := machine.Allocate(&scratch, &taken, &alloc.Request{Wants: []alloc.Want{{Name: "redis", CPUs: 4}}})
	if refusal.Code != alloc.Placed {
		fmt.Println(refusal.Detail())
		return
	}
	fmt.Println("CPUs", answer.CPUs)
	for _, reason := range answer.Why() {
		fmt.Println(reason.Text)
	}
	// Output:
	// CPUs 4-7
	// in 1 NUMA node
	// in 1 L3 domain
	// no core held partly
	// no core broken up that was wholly free
	// no CPU left free in its L3 domains (4 on the empty machine)
	// 8 CPUs left free in its NUMA nodes (12 on the empty machine)
	// no CPU left free in its sockets
}

// Why does a pod not fit although enough CPUs are free?
func ExampleRefusal() {
	described, _ := topology.Decode([]byte(eightCores))
	machine, err := alloc.Compile(described)
	if err != nil {
		fmt.Println(err)
		return
	}
	var taken alloc.Taken
	others, _ := cpuset.Parse("0,2,4,6,8,10")
	machine.Hold(&taken, alloc.Holding{CPUs: others})

	var scratch alloc.Scratch
	_, refusal := machine.Allocate(&scratch, &taken, &alloc.Request{
		Wants: []alloc.Want{{Name: "redis", CPUs: 6}}, Bind: alloc.FullPCPUs, BindStrength: alloc.Required,
	})
	if refusal.Code == alloc.TooFewWholeCores {
		fmt.Printf("%d whole cores wanted, %d free\n", refusal.Want, refusal.Have)
	}
	// Output:
	// 3 whole cores wanted, 2 free
}
