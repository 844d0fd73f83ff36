package credit

import "fmt"

// Reason is the reason for a decision. The texts are stable: metrics and JSON carry them.
type Reason int

// The reasons of a decision. Their order counts: from AtCeiling to GuardCapped the quota is above the limit, and for
// later reasons it is at the limit (Raised).
const (
	// Unset means that nothing is decided yet.
	Unset Reason = iota
	// AtCeiling is the policy's full ceiling, paid for by credit.
	AtCeiling
	// NoLimitOnCredit is the full ceiling of a policy that keeps no account.
	NoLimitOnCredit
	// AncestorCapped is a quota above the limit that an ancestor's quota holds below the policy's ceiling.
	AncestorCapped
	// GuardCapped is a quota above the limit that the group's share of the node's remaining CPU time bounds.
	GuardCapped
	// Off is a policy that does not move the quota.
	Off
	// Incomplete is a group without a limit, or facts that lack something necessary: CPUs or a period.
	Incomplete
	// Unenforced is a kernel that enforces no group's quota, because a BPF scheduler schedules all threads.
	Unenforced
	// NothingToGain is a limit that no CPU set of this size can exceed, or a ceiling equal to the limit.
	NothingToGain
	// AncestorCap is an ancestor whose own limit is no higher than the group's.
	AncestorCap
	// GuardFull is a node with nothing left to share.
	GuardFull
	// CreditTooSmall is a policy whose full credit could not pay for the ceiling until one sample: the group is never
	// raised.
	CreditTooSmall
	// NoCredit is a group that has used its credit.
	NoCredit
	// Recovering is a group that has enough credit again to be above its limit, but has not yet saved the additional
	// tenth of its capacity that makes writes rare.
	Recovering
)

// Raised reports whether the quota of a decision with this reason is above the limit.
func (r Reason) Raised() bool { return r >= AtCeiling && r <= GuardCapped }

// said holds the stable name of a reason and its meaning in words.
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

// Meaning returns in words what the reason with this name means, or "" if no reason has the name.
func Meaning(name string) string {
	for r := Unset; r.said().meaning != ""; r++ {
		if r.said().name == name {
			return r.said().meaning
		}
	}
	return ""
}
