package workload

// BeyondMilli returns by how much the pod needs more than Scheduled, in thousandths of a CPU, if its containers hold
// these amounts, also in thousandths. The amounts are in the order of Pinned and of Others; with PerPod there is one
// amount, which all share. A missing amount is 0.
//
// The result is the growth of the scheduler's sum if every container requested at least what it holds. A request of an
// init container, or of the whole pod, beyond its containers therefore covers what they hold: init containers end
// before the other containers start, and run on the same CPUs.
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

// sumAt sums what containers use while the init container with this number runs, or after the last one.
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
