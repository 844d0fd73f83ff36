package query

import "errors"

var (
	// ErrRequest says that a parameter is missing or cannot be what it is.
	ErrRequest = errors.New("bad request")
	// ErrCost says that a query would cost too much.
	ErrCost = errors.New("the query costs too much")
	// ErrHistory says that the history cannot be read.
	ErrHistory = errors.New("read history")
	// ErrQuery says that a query cannot be evaluated.
	ErrQuery = errors.New("query")
	// ErrBusy says that as many queries run as may.
	ErrBusy = errors.New("too many queries at a time; try again")
)
