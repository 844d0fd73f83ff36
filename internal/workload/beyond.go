package workload

// BeyondMilli returns by how much the pod needs more than Scheduled, in
// thousandths of a CPU, if its containers have this much each, also in
// thousandths: pinned in the order of Pinned, others in that of Others, and
// with PerPod the one amount that all share. Missing ones have nothing.
//
// It is what the sum of a scheduler would grow by if every container requested
// at least what it has. So what an init container, or the pod as a whole,
// requests beyond its containers covers what they hold: init containers end
// before the others start, and run on the same CPUs.
func (p *Pinning) BeyondMilli(pinned, others []int64) int64 {
	most := int64(0)
	if p.PerPod {
		most = max(at(pinned, 0), at(others, 0))
	} else {
		for moment := range len(p.Init) + 1 {
			most = max(most, at(p.Init, moment)+sumAt(p.Pinned, pinned, moment)+sumAt(p.Others, others, moment))
		}
	}
	return max(0, p.Overhead+most-p.Scheduled)
}

// sumAt adds up what containers take while the init container runs that has this
// number, or after the last one.
func sumAt(containers []PinnedContainer, has []int64, moment int) int64 {
	sum := int64(0)
	for i := range containers {
		if containers[i].After <= moment {
			sum += max(containers[i].Request, at(has, i))
		}
	}
	return sum
}

func at(amounts []int64, i int) int64 {
	if i < len(amounts) {
		return amounts[i]
	}
	return 0
}
