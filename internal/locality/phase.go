package locality

// Outcome is how a pass over one container ended.
type Outcome string

const (
	// Completed: it was walked to the end, or is at its target. Single processes that
	// exited meanwhile do not change that.
	Completed Outcome = "Completed"
	// Skipped: there was nothing to do.
	Skipped Outcome = "Skipped"
	// Failed: it stopped early, because of room, rights, or a foreign cpuset.mems.
	Failed Outcome = "Failed"
)
