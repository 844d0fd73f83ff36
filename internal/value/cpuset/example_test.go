package cpuset_test

import (
	"fmt"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// Which CPUs are left for everything else, once two services are pinned?
func Example() {
	online, _ := cpuset.Parse("0-15")
	redis, _ := cpuset.Parse("0-3,8-11")
	queue, _ := cpuset.Parse("4,12")
	shared := online.Difference(redis).Difference(queue)
	fmt.Println(shared, "has", shared.Size(), "CPUs")
	// Output: 5-7,13-15 has 6 CPUs
}

// What is wrong with this line of a configuration file?
func ExampleParse() {
	_, err := cpuset.Parse("0-3,8-")
	fmt.Println(err)
	// Output:
	// CPU list "0-3,8-": byte 6: want the last CPU of the range, 8 to 1023
}

// Which CPUs may interrupt 42 run on? /proc/irq/42/smp_affinity has a mask.
func ExampleParseMask() {
	irq, err := cpuset.ParseMask("ff00,000000ff")
	fmt.Println(irq, err)
	// Output: 0-7,40-47 <nil>
}
