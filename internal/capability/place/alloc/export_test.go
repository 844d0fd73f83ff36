package alloc

// Overspent returns by what share of its budget the last decision exceeded it, 0 if it did not.
func Overspent(s *Scratch) float64 { return float64(max(0, -s.search.budget)) / budget }
