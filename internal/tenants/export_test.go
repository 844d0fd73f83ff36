package tenants

// Known counts the containers and sandboxes that are remembered.
func (t *Tenants) Known() (containers, sandboxes int) { return len(t.containers), len(t.sandboxes) }

// Held counts the news that are kept until people are told.
func (t *Tenants) Held() int { return len(t.held) + len(t.owed) }
