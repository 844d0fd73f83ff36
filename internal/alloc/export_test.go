package alloc

// Steps returns the steps that the last search took.
func (s *Scratch) Steps() int { return budget - s.steps }
