package placement

import "reflect"

// HeldSize is the memory of one pod with one container that is bound to NUMA
// nodes, in bytes.
func HeldSize() uintptr { return reflect.TypeFor[Held]().Size() + reflect.TypeFor[bound]().Size() }
