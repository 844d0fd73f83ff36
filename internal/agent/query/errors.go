package query

import "errors"

var (
	// ErrRequest means that a parameter is missing or invalid.
	ErrRequest = errors.New("bad request")
	// ErrCost means that a query would cost too much.
	ErrCost = errors.New("the query costs too much")
	// ErrHistory means that the history cannot be read.
	ErrHistory = errors.New("read history")
	// ErrQuery means that a query cannot be evaluated.
	ErrQuery = errors.New("query")
	// ErrBusy means that the maximum number of queries is running.
	ErrBusy = errors.New("too many queries at a time; try again")
)
