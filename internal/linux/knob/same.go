package knob

import (
	"math"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	sysfsDir = "/sys/"
	debugDir = "/sys/kernel/debug/"
)

// Content returns the value in the text of a kernel file: without surplus spaces, and of a choice only the chosen word.
// The kernel puts the chosen word into brackets in sysfs, and into parentheses in debugfs.
func Content(file, text string) string {
	left, right := "[", "]"
	if strings.HasPrefix(file, debugDir) {
		left, right = "(", ")"
	}
	words := strings.Fields(text)
	if strings.HasPrefix(file, sysfsDir) {
		for _, word := range words {
			inner, opened := strings.CutPrefix(word, left)
			inner, closed := strings.CutSuffix(inner, right)
			if opened && closed && inner != "" {
				return inner
			}
		}
	}
	return strings.Join(words, " ")
}

// Same reports whether two texts of a kernel file are the same value. It ignores spacing, the notation of CPU lists and
// masks, and the rounding errors of slices that the kernel scales.
func Same(file, a, b string) bool {
	a, b = Content(file, a), Content(file, b)
	if a == b {
		return true
	}
	k, at, _ := At(file) // the zero Place if the catalogue does not have it
	switch {
	case at.Scaled:
		return scaled(a, b, 1, 1)
	case at.Mask:
		return sameCPUs(cpuset.ParseMask, a, b)
	case k.Unit == CPUs:
		return sameCPUs(cpuset.Parse, a, b)
	}
	return false
}

func sameCPUs(parse func(string) (cpuset.Set, error), a, b string) bool {
	left, errLeft := parse(a)
	right, errRight := parse(b)
	return errLeft == nil && errRight == nil && left == right
}

// factors is the largest factor of a slice: 1 + log2 of the number of online CPUs, limited to 8 CPUs
// (get_update_sysctl_factor in kernel/sched/fair.c).
const factors = 4

// IsRescaled reports whether v is a recorded slice that the kernel scaled when CPUs came or went. The kernel multiplies
// its slice for one CPU by the new factor.
func IsRescaled(file, v, recorded string) bool {
	if _, at, _ := At(file); !at.Scaled {
		return false
	}
	for now := range int64(factors) {
		for then := range int64(factors) {
			if scaled(v, recorded, now+1, then+1) {
				return true
			}
		}
	}
	return false
}

// scaled reports whether v is recorded * now / then, up to rounding: the kernel divides before it multiplies.
func scaled(v, recorded string, now, then int64) bool {
	is, errIs := strconv.ParseInt(v, 10, 64)
	was, errWas := strconv.ParseInt(recorded, 10, 64)
	if errIs != nil || errWas != nil || was > math.MaxInt64/factors {
		return false
	}
	exact := was * now / then
	return is <= exact+factors && is >= exact-factors
}
