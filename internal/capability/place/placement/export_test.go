package placement

import "reflect"

// HeldSize returns the bytes of one pod with one container that is bound to NUMA nodes.
func HeldSize() uintptr { return reflect.TypeFor[Held]().Size() + reflect.TypeFor[bound]().Size() }
