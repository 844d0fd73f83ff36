package window

import "errors"

// ErrAnswer says that the agent answered with another status than 200: it says what is
// wrong with itself.
var ErrAnswer = errors.New("not well")
