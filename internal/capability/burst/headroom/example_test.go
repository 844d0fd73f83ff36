package headroom_test

import (
	"fmt"

	"github.com/berth-project/berth/internal/capability/burst/headroom"
)

// Three containers want to burst on a node that is 80 % busy. What does each get?
func ExampleShare() {
	demands := []headroom.Demand{{Limit: 1, Ceiling: 3}, {Limit: 1, Ceiling: 3}, {Limit: 2, Ceiling: 6}}
	fmt.Println("quiet node:", headroom.Share(0.5, 0.2, 10, demands))
	fmt.Println("busy node: ", headroom.Share(0.5, 0.8, 10, demands))
	// Output:
	// quiet node: [3 3 6]
	// busy node:  [1.5 1.5 3]
}
