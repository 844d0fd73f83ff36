package window

import "errors"

// ErrAnswer means that the agent answered with a status other than 200. The message of the error has the agent's text.
var ErrAnswer = errors.New("not well")
