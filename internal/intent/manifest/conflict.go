package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/intent/workload"
)

// settle separates the workloads without conflicts from the pending ones. A workload of before retains its claims.
func settle(all, before []workload.Workload) (ready []workload.Workload, pending []Pending) {
	claims := map[string][]int{}
	for i, w := range all {
		for _, claim := range claimsOf(w) {
			claims[claim] = append(claims[claim], i)
		}
	}
	held := map[string]workload.Workload{}
	for _, w := range before {
		for _, claim := range claimsOf(w) {
			held[claim] = w
		}
	}
	for i, w := range all {
		if reason := conflict(i, all, claims, held); reason != nil {
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

// claimsOf returns the claims of a workload, in words: only one workload may have each.
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

// maxClaims bounds the claims that a reason names: a thousand named processes do not help to compare two lists.
const maxClaims = 5

// same reports whether two values are the same workload, read at two times.
func same(a, b workload.Workload) bool { return a.Name == b.Name && sameFile(a.File, b.File) }

// sameFile reports whether two places are in one file; lines are ignored.
func sameFile(a, b string) bool { return fileOf(a) == fileOf(b) }

// fileOf returns the file of a place. A place ends with a line number if the file has several documents. The names of
// workload files never end with a digit.
func fileOf(place string) string {
	return strings.TrimSuffix(strings.TrimRight(place, "0123456789"), ":")
}

// conflict returns why workload i waits, or nil. A workload does not wait for a claim that it already holds, unless
// another document of its file has the same name.
func conflict(i int, all []workload.Workload, claims map[string][]int, held map[string]workload.Workload) error {
	var shared, others []string
	for _, claim := range claimsOf(all[i]) {
		if len(claims[claim]) < 2 {
			continue
		}
		isHolder := func(j int) bool { return same(all[j], held[claim]) }
		if isHolder(i) && !slices.ContainsFunc(claims[claim], func(j int) bool { return j != i && isHolder(j) }) {
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
