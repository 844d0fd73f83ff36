package inventory

import (
	"github.com/berth-project/berth/internal/lending"
	"github.com/berth-project/berth/internal/unit"
)

// Lender lends CPUs to the pods of an Inventory that may use more CPUs than those reserved for them.
type Lender struct{ inv *Inventory }

// NewLender returns the Lender of an Inventory.
func NewLender(inv *Inventory) Lender { return Lender{inv} }

// Borrowers returns the borrowing containers, each with the groups whose quotas bound it: its own and its pod's.
// Containers with an unknown group are omitted.
func (l Lender) Borrowers() []lending.Borrower {
	var all []lending.Borrower
	for _, b := range l.inv.node.Borrowers() {
		if c := l.inv.containers.byID[b.ContainerID]; c != nil && c.group != "" {
			b.Groups = append(b.Groups, c.group)
		}
		if group := l.inv.containers.groupOfPod(b.PodUID); group != "" && (b.Container == "" || len(b.Groups) > 0) {
			b.Groups = append(b.Groups, group)
		}
		if len(b.Groups) > 0 {
			all = append(all, b)
		}
	}
	return all
}

// Lend gives borrowers as many CPUs as their loans say, as place.Node.Lend does.
func (l Lender) Lend(loans []lending.Loan, use []unit.CPUs) { l.inv.node.Lend(loans, use) }
