package assignment

import (
	"github.com/berth-project/berth/internal/capability/place/lending"
	"github.com/berth-project/berth/internal/value/unit"
)

// Borrowers returns the containers that may use more CPUs than those reserved for them, each with the groups whose
// quotas bound it: its own and its pod's. Containers with an unknown group are omitted.
func (a *Assignment) Borrowers() []lending.Borrower {
	a.learn()
	var all []lending.Borrower
	for _, b := range a.node.Borrowers() {
		if group, _ := a.inventory.Containers().GroupOf(b.ContainerID); group != "" {
			b.Groups = append(b.Groups, group)
		}
		if group := a.inventory.Containers().GroupOfPod(b.PodUID); group != "" && (b.Container == "" || len(b.Groups) > 0) {
			b.Groups = append(b.Groups, group)
		}
		if len(b.Groups) > 0 {
			all = append(all, b)
		}
	}
	return all
}

// Lend gives borrowers as many CPUs as their loans say, as place.Node.Lend does.
func (a *Assignment) Lend(loans []lending.Loan, use []unit.CPUs) {
	a.learn()
	a.node.Lend(loans, use)
}
