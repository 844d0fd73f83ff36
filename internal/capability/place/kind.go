package place

import "github.com/berth-project/berth/internal/capability/place/grant"

// kind is the role of a container in its pod.
type kind uint8

const (
	// app and sidecar have their CPUs for the life of the pod.
	app kind = iota
	sidecar
	// initial is an ordinary init container, which reuses the CPUs of the app containers.
	initial
	// other is the sandbox, an ephemeral container, or a container of an unknown pod.
	other
)

func (p *pod) kind(m *container) kind {
	if m.Sandbox {
		return other
	}
	for i := range p.spec.Containers {
		switch c := &p.spec.Containers[i]; {
		case c.Name != m.Name:
		case c.Sidecar:
			return sidecar
		default:
			return app
		}
	}
	for i := range p.spec.Init {
		if p.spec.Init[i].Name == m.Name {
			return initial
		}
	}
	return other
}

// apps returns what all app containers have together, or nothing if no app container has exclusive CPUs: sidecars may
// run beside the init containers.
func (p *pod) apps(parts map[string]grant.Part) grant.Part {
	var sum grant.Total
	p.eachApp(parts, func(_ string, one grant.Part) { sum.Add(one) })
	return sum.Part()
}

func (p *pod) eachApp(parts map[string]grant.Part, visit func(name string, one grant.Part)) {
	for i := range p.spec.Containers {
		c := &p.spec.Containers[i]
		if one, found := parts[c.Name]; found && !c.Sidecar {
			visit(c.Name, one)
		}
	}
}
