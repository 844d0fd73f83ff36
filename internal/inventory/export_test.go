package inventory

// Known counts the containers and sandboxes that are remembered.
func (inv *Inventory) Known() (containers, sandboxes int) {
	return len(inv.containers), len(inv.sandboxes)
}

// Held counts the news that are kept until people are told.
func (inv *Inventory) Held() int { return len(inv.held) + len(inv.owed) }
