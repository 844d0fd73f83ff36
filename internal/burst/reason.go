package burst

import "fmt"

// Reason says why a decision is what it is. The texts are stable: metrics and
// JSON carry them.
type Reason int

// The reasons of a decision. Up to GuardCapped the quota stands above the
// limit, from there on at the limit.
const (
	// Unset is no decision yet.
	Unset Reason = iota
	// AtCeiling is the policy's full ceiling, paid for by credit.
	AtCeiling
	// NoLimitOnCredit is the full ceiling of a policy that keeps no account.
	NoLimitOnCredit
	// AncestorCapped is a quota above the limit, but no higher than an
	// ancestor's.
	AncestorCapped
	// GuardCapped is a quota above the limit, but no higher than the group's
	// share of what the node has left.
	GuardCapped
	// Off is a policy that does not move the quota.
	Off
	// Incomplete is a group without a limit, or facts without which nothing
	// can be decided: no CPUs, no period.
	Incomplete
	// Unenforced is a kernel that holds no group to its quota, because a BPF scheduler has
	// all threads.
	Unenforced
	// NothingToGain is a limit that no CPU set of this size can exceed, or a
	// ceiling that is the limit.
	NothingToGain
	// AncestorCap is an ancestor whose own limit is no higher than the group's.
	AncestorCap
	// GuardFull is a node on which nothing is left to share out.
	GuardFull
	// CreditTooSmall is a policy whose full credit could not pay for one look's
	// worth of the ceiling: the group is never raised.
	CreditTooSmall
	// NoCredit is a group that has used up its credit.
	NoCredit
	// Recovering is a group that could stand above its limit again, but has
	// not yet saved the tenth of its capacity that keeps writes few.
	Recovering
)

// Raised reports whether the quota of such a decision stands above the limit.
func (r Reason) Raised() bool { return r >= AtCeiling && r <= GuardCapped }

// String returns the stable name of r, as in "NoCredit".
func (r Reason) String() string {
	switch r {
	case Unset:
		return "Unset"
	case AtCeiling:
		return "AtCeiling"
	case NoLimitOnCredit:
		return "NoLimitOnCredit"
	case AncestorCapped:
		return "AncestorCapped"
	case GuardCapped:
		return "GuardCapped"
	case Off:
		return "Off"
	case Incomplete:
		return "Incomplete"
	default:
		return r.atLimit()
	}
}

// atLimit names the reasons for standing at the limit.
func (r Reason) atLimit() string {
	switch r {
	case Unenforced:
		return "Unenforced"
	case NothingToGain:
		return "NothingToGain"
	case AncestorCap:
		return "AncestorCap"
	case GuardFull:
		return "GuardFull"
	case CreditTooSmall:
		return "CreditTooSmall"
	case NoCredit:
		return "NoCredit"
	case Recovering:
		return "Recovering"
	default:
		return fmt.Sprintf("Reason(%d)", int(r))
	}
}

// MarshalText returns the stable name, so that JSON and YAML carry it.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
