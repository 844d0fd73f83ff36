package locality

// Left is why a pass did not move a page. A pass moves or leaves, for one of these reasons, every page that it found on
// another node or in swap.
type Left string

const (
	// LeftGone means that the page was freed, or its process ended, before the pass came to it.
	LeftGone Left = "gone"
	// LeftSwapped means that the page is in swap, and comes back on the node where a thread touches it.
	LeftSwapped Left = "swapped"
	// LeftBusy means that the kernel could not isolate the page in three tries, because it is in use.
	LeftBusy Left = "busy"
	// LeftPinned means busy, in a process that has pinned memory, usually for a device.
	LeftPinned Left = "pinned"
	// LeftShared means that another process has the page mapped too, after a fork, or by KSM. For shared memory, a
	// process outside the group has it mapped, or may have.
	LeftShared Left = "shared"
	// LeftPolicy means that the process chose the node by a memory policy of its own.
	LeftPolicy Left = "policy"
	// LeftTier means that no local node is in the page's memory tier.
	LeftTier Left = "tier"
	// LeftNoRoom means that the local nodes are full.
	LeftNoRoom Left = "noRoom"
	// LeftNoHugeBlock means that the local nodes have no free block of a huge page's size, or no free page in their
	// pool. A base page never needs a block.
	LeftNoHugeBlock Left = "noHugeBlock"
)

// Lefts returns all reasons, in the order of reports.
func Lefts() []Left {
	return []Left{
		LeftNoRoom, LeftNoHugeBlock, LeftPolicy, LeftTier, LeftShared, LeftPinned, LeftBusy, LeftSwapped, LeftGone,
	}
}
