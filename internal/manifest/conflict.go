package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/workload"
)

// settle parts the workloads that no other workload claims from the others.
func settle(all []workload.Workload) (ready []workload.Workload, pending []Pending) {
	claims := map[string][]int{}
	for i, w := range all {
		for _, claim := range claimsOf(w) {
			claims[claim] = append(claims[claim], i)
		}
	}
	for i, w := range all {
		if reason := conflict(i, all, claims); reason != nil {
			pending = append(pending, Pending{Workload: w, Reason: reason})
			continue
		}
		ready = append(ready, w)
	}
	byName := func(a, b workload.Workload) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
	}
	slices.SortStableFunc(ready, byName)
	slices.SortStableFunc(pending, func(a, b Pending) int { return byName(a.Workload, b.Workload) })
	return ready, pending
}

// claimsOf returns what only one workload may have, in words.
func claimsOf(w workload.Workload) []string {
	claims := []string{"name " + w.Name}
	if w.Cgroup != "" {
		claims = append(claims, "cgroup "+w.Cgroup)
	}
	if w.Unit != "" {
		claims = append(claims, "systemdUnit "+w.Unit)
	}
	for _, pid := range w.PIDs {
		claims = append(claims, fmt.Sprintf("pid %d", pid))
	}
	return claims
}

// maxClaims bounds the claims that a reason names: two lists of a thousand
// processes are no easier to compare with each of them named.
const maxClaims = 5

// conflict returns why workload i waits, or nil.
func conflict(i int, all []workload.Workload, claims map[string][]int) error {
	var shared, others []string
	for _, claim := range claimsOf(all[i]) {
		if len(claims[claim]) < 2 {
			continue
		}
		shared = append(shared, claim)
		for _, j := range claims[claim] {
			other := fmt.Sprintf("%s (%s)", all[j].Name, all[j].File)
			if j != i && !slices.Contains(others, other) {
				others = append(others, other)
			}
		}
	}
	if len(shared) == 0 {
		return nil
	}
	if len(shared) > maxClaims {
		shared = append(shared[:maxClaims], "…")
	}
	return fmt.Errorf("%s: %w: also %s", strings.Join(shared, ", "), ErrConflict, strings.Join(others, ", "))
}
