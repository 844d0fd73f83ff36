package window

import "errors"

// ErrAnswer means that the agent answered with a status other than 200, and what is wrong with it.
var ErrAnswer = errors.New("not well")
