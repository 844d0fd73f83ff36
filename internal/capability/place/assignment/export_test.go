package assignment

// Held returns the number of events that wait to be reported.
func (a *Assignment) Held() int { return len(a.events.held) + len(a.events.unwritten) }
