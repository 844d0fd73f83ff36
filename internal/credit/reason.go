package credit

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

// said are the stable name of a reason, and what it means in words.
type said struct{ name, meaning string }

func (r Reason) said() said {
	all := [...]said{
		Unset:           {"Unset", "nothing is decided yet"},
		AtCeiling:       {"AtCeiling", "at the policy's ceiling, paid for by credit"},
		NoLimitOnCredit: {"NoLimitOnCredit", "at the policy's ceiling; it keeps no account"},
		AncestorCapped:  {"AncestorCapped", "above the limit, but no higher than a group above it allows"},
		GuardCapped:     {"GuardCapped", "above the limit, but no higher than its share of what the node has left"},
		Off:             {"Off", "at the limit: the policy does not move the quota"},
		Incomplete:      {"Incomplete", "not raised: the group has no limit, or its CPUs or counters are not known"},
		Unenforced:      {"Unenforced", "at the limit: a sched_ext scheduler has all threads, and no quota holds them"},
		NothingToGain:   {"NothingToGain", "at the limit, which is all that its CPUs or its policy allow"},
		AncestorCap:     {"AncestorCap", "at the limit: a group above it allows no more"},
		GuardFull:       {"GuardFull", "at the limit: the node has nothing left to share out"},
		CreditTooSmall:  {"CreditTooSmall", "at the limit: the full credit of the policy cannot pay for one raise"},
		NoCredit:        {"NoCredit", "at the limit: the credit is used up"},
		Recovering:      {"Recovering", "at the limit until a tenth of the most credit is saved"},
	}
	if r < 0 || int(r) >= len(all) {
		return said{name: fmt.Sprintf("Reason(%d)", int(r))}
	}
	return all[r]
}

// String returns the stable name of r, as in "NoCredit".
func (r Reason) String() string { return r.said().name }

// Meaning says in words what the reason of this name means, "" where none has the name.
func Meaning(name string) string {
	for r := Unset; r.said().meaning != ""; r++ {
		if r.said().name == name {
			return r.said().meaning
		}
	}
	return ""
}
