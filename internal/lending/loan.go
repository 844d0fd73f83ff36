package lending

import (
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/unit"
)

// Borrower is a container with static-burst: beside the CPUs that are reserved for it, it may
// run on those of its domain that are reserved for no pod. With a limit of the pod it is all
// containers together, as they share one set.
type Borrower struct {
	PodUID string
	// Container and ContainerID are empty where the containers share one set.
	Container, ContainerID string
	// Groups hold the quotas that bound it, its own group first. Whoever decides
	// about CPUs knows no groups: whoever reads those adds them.
	Groups []string
	// Reserved are the CPUs that no other container uses.
	Reserved cpuset.Set
	// Limit is what its quota grants, in CPUs.
	Limit unit.CPUs
}

// Loan is what a Borrower may have.
type Loan struct {
	PodUID, Container string
	// Width is how many CPUs it shall have, reserved ones included, and Why says what
	// that follows from.
	Width int
	Why   string
	// Used is the CPU time that it used in a second, since the cores were chosen last.
	Used unit.CPUs
}

// Lent is what a borrower has.
type Lent struct {
	// Loan is what it may have.
	Loan
	// CPUs are those that it borrows.
	CPUs cpuset.Set
	// over is on how many CPUs it runs, reserved ones included; chosen says that cores were
	// looked for.
	over   int
	chosen bool
}

// Choose returns what the borrower has of the cores that are free for it, in the order of the
// topology, where it had before and has so many CPUs reserved. use is how busy each CPU is without
// borrowers; what this one is taken to use is added to it. Without use no core is chosen anew.
func (l Loan) Choose(before Lent, reserved int, free []cpuset.Set, use []unit.CPUs) Lent {
	next := Lent{Loan: l, chosen: use != nil || before.chosen}
	next.CPUs = spread(rank(free, before.CPUs, use), l.Width-reserved)
	next.over = reserved + next.CPUs.Size()
	next.busy(use, +1)
	return next
}

// Others returns how busy CPUs are with other work than that of borrowers, which is taken to be
// spread evenly over the CPUs that each has: the kernel counts it by group only.
func Others(use []unit.CPUs, held []Lent) []unit.CPUs {
	use = slices.Clone(use)
	for i := range held {
		held[i].busy(use, -1)
	}
	return use
}

// busy adds what the borrower uses of each borrowed CPU, or takes it off.
func (l *Lent) busy(use []unit.CPUs, sign unit.CPUs) {
	share := l.Used / unit.CPUs(max(l.over, 1))
	for cpu := range l.CPUs.All() {
		if cpu < len(use) {
			use[cpu] = max(0, use[cpu]+sign*share)
		}
	}
}

// Text is the sentence about the CPUs of a borrower, of which these are reserved, chosen as from says.
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
