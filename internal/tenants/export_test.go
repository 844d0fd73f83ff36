package tenants

// Known counts the containers and sandboxes that are remembered.
func (t *Tenants) Known() (containers, sandboxes int) { return len(t.containers), len(t.sandboxes) }
