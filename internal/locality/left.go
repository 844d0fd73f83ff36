package locality

// Left is why a pass left a page where it is. Every page that a pass found elsewhere, or
// in swap, was either moved or left for one of these reasons.
type Left string

const (
	// LeftGone says: the page was freed, or its process ended, before it was its turn.
	LeftGone Left = "gone"
	// LeftSwapped says: it is in swap, and comes back to where it is touched.
	LeftSwapped Left = "swapped"
	// LeftBusy says: the kernel could not take it in three tries: something holds it.
	LeftBusy Left = "busy"
	// LeftPinned says: as busy, in a process that has pinned memory, for a device as a rule.
	LeftPinned Left = "pinned"
	// LeftShared says: another process has it mapped too, after a fork, or by KSM; of shared
	// memory, one that is not of the group, as far as this program may know.
	LeftShared Left = "shared"
	// LeftPolicy says: the process chose where it is, by a memory policy of its own.
	LeftPolicy Left = "policy"
	// LeftTier says: no local node is of the memory tier in which it is.
	LeftTier Left = "tier"
	// LeftNoRoom says: the local nodes are full.
	LeftNoRoom Left = "noRoom"
	// LeftNoHugeBlock says: no free block of a huge page's size is on the local nodes, or no
	// page of their pool is free. A base page never needs one.
	LeftNoHugeBlock Left = "noHugeBlock"
)

// Lefts returns all reasons, in the order in which they are reported.
func Lefts() []Left {
	return []Left{
		LeftNoRoom, LeftNoHugeBlock, LeftPolicy, LeftTier, LeftShared, LeftPinned, LeftBusy, LeftSwapped, LeftGone,
	}
}
