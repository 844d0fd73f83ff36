package assignment

// Held counts the events that are kept until they can be reported.
func (a *Assignment) Held() int { return len(a.events.held) + len(a.events.unwritten) }
