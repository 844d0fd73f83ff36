package kernel

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// numbers returns the decimal numbers in a name: "linux-source-6.12" gives 6, 12.
func numbers(name string) []int {
	fields := strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' })
	found := make([]int, 0, len(fields))
	for _, field := range fields {
		n, err := strconv.Atoi(field)
		if err != nil {
			n = 0 // Too long for a version; sorts first.
		}
		found = append(found, n)
	}
	return found
}

// compareVersions orders names by the numbers in them, so that 6.12 is newer than 6.1.
func compareVersions(a, b string) int {
	return cmp.Or(slices.Compare(numbers(a), numbers(b)), cmp.Compare(a, b))
}

// series returns the first two numbers of a name: "linux-image-6.1.0-57-cloud-amd64" gives "6.1".
func series(name string) string {
	n := append(numbers(name), 0, 0)
	return strconv.Itoa(n[0]) + "." + strconv.Itoa(n[1])
}
