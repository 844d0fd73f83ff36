package alloc

// Reason is one term of the vector in words.
type Reason struct {
	// Term is the field of the vector, in camel case.
	Term string `json:"term"`
	// Value is the answer's, Best what the empty machine would give.
	Value int `json:"value"`
	Best  int `json:"best"`
	// Text is one plain sentence.
	Text string `json:"text"`
}

// Why gives the reasons of the answer, term by term.
func (a *Answer) Why() []Reason {
	return nil
}
