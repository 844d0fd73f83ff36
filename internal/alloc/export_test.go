package alloc

// Overspent returns by how much the last decision exceeded its budget, in parts
// of the budget: 0 where it did not.
func Overspent(s *Scratch) float64 { return float64(max(0, -s.budget)) / budget }
