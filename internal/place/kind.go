package place

// kind says what a container is to its pod.
type kind uint8

const (
	// app and sidecar hold what they get for the life of the pod.
	app kind = iota
	sidecar
	// initial is an ordinary init container, which reuses the CPUs of the app
	// containers.
	initial
	// other is the sandbox, an ephemeral container, or one of an unknown pod.
	other
)

// kind finds the container in the pod.
func (t *tenant) kind(m *member) kind {
	if m.Sandbox {
		return other
	}
	for i := range t.pod.Containers {
		switch c := &t.pod.Containers[i]; {
		case c.Name != m.Name:
		case c.Sidecar:
			return sidecar
		default:
			return app
		}
	}
	for i := range t.pod.Init {
		if t.pod.Init[i].Name == m.Name {
			return initial
		}
	}
	return other
}

// apps returns what the app containers have together, nothing where none has
// CPUs of its own: sidecars may run beside the init containers.
func (t *tenant) apps(parts map[string]part) part {
	var sum total
	t.eachApp(parts, func(_ string, one part) { sum.add(one) })
	return sum.part()
}

func (t *tenant) eachApp(parts map[string]part, visit func(name string, one part)) {
	for i := range t.pod.Containers {
		c := &t.pod.Containers[i]
		if one, found := parts[c.Name]; found && !c.Sidecar {
			visit(c.Name, one)
		}
	}
}
