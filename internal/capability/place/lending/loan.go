package lending

import (
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Borrower is a container with static-burst: in addition to its reserved CPUs, it may run on CPUs of its domain that
// are reserved for no pod. If its pod has a limit, the Borrower is all containers together, since they share one set.
type Borrower struct {
	PodUID string
	// Container and ContainerID are empty if the containers share one set.
	Container, ContainerID string
	// Groups are the groups whose quotas limit it, its own group first. Package place knows no groups: the caller that
	// reads the groups adds them.
	Groups []string
	// Reserved are the CPUs that no other container uses.
	Reserved cpuset.Set
	// Limit is what its quota grants, in CPUs.
	Limit unit.CPUs
}

// Loan is how many CPUs a Borrower may have.
type Loan struct {
	PodUID, Container string
	// Width is how many CPUs it should have, reserved ones included; Why is the reason.
	Width int
	Why   string
	// Used is its CPU time per second since the last choice of cores.
	Used unit.CPUs
}

// Lent is a Loan with the CPUs that the borrower has because of it.
type Lent struct {
	// Loan is what it may have.
	Loan
	// CPUs are the borrowed CPUs.
	CPUs cpuset.Set
	// over is the number of CPUs that it runs on, reserved ones included. chosen is true once cores were chosen.
	over   int
	chosen bool
}

// Choose returns the loan with the CPUs that the borrower gets from the free cores of its domain, which are in the
// order of the topology. before is its previous loan, and reserved its number of reserved CPUs. use is how busy each
// CPU is without borrowers; Choose adds the assumed use of this borrower. If use is nil, no new core is chosen.
func (l Loan) Choose(before Lent, reserved int, free []cpuset.Set, use []unit.CPUs) Lent {
	next := Lent{Loan: l, chosen: use != nil || before.chosen}
	next.CPUs = spread(rank(free, before.CPUs, use), l.Width-reserved)
	next.over = reserved + next.CPUs.Size()
	next.busy(use, +1)
	return next
}

// Others returns how busy CPUs are with other work than that of borrowers. Each borrower's use is assumed to be spread
// evenly over its CPUs: the kernel counts it by group only.
func Others(use []unit.CPUs, held []Lent) []unit.CPUs {
	use = slices.Clone(use)
	for i := range held {
		held[i].busy(use, -1)
	}
	return use
}

// busy adds the borrower's assumed use to that of each borrowed CPU, or subtracts it for a sign of -1.
func (l *Lent) busy(use []unit.CPUs, sign unit.CPUs) {
	share := l.Used / unit.CPUs(max(l.over, 1))
	for cpu := range l.CPUs.All() {
		if cpu < len(use) {
			use[cpu] = max(0, use[cpu]+sign*share)
		}
	}
}

// Text returns the sentence about the CPUs of a borrower with these reserved CPUs; from says how they were chosen.
func (l *Lent) Text(reserved cpuset.Set, from string) string {
	why := "CPUs " + reserved.String() + " are reserved, " + from
	switch {
	case !l.chosen:
		return why + "; it borrows none so far"
	case l.Width <= reserved.Size():
		return why + "; it borrows none: " + l.Why
	case l.CPUs.IsEmpty():
		return why + "; it borrows none: no other core of its domain is free of reserved CPUs"
	case l.CPUs.Size()+reserved.Size() < l.Width:
		return why + "; it borrows " + l.CPUs.String() + ": the other cores of its domain have reserved CPUs"
	}
	return why + "; it borrows " + l.CPUs.String() + ": " + l.Why
}
