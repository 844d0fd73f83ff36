package inventory

// Known counts the containers and sandboxes that are remembered.
func (inv *Inventory) Known() (containers, sandboxes int) {
	return len(inv.containers.byID), len(inv.containers.sandboxes)
}

// Held counts the events that are kept until they can be reported.
func (inv *Inventory) Held() int { return len(inv.events.held) + len(inv.events.unwritten) }
