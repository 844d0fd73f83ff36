package cpuset

// Words returns the set as machine words: CPU c is bit c%64 of word c/64. It serves code that works on many sets at
// once.
func (s Set) Words() [words]uint64 { return s.bits }

// OfWords returns the set of the CPUs whose bits are set, in the format of Words.
func OfWords(w [words]uint64) Set { return Set{bits: w} }
