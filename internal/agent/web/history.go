package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/berth-project/berth/internal/agent/history"
)

const (
	// usualPast is the default number of seconds for one workload, recentPast the maximum for all workloads.
	// longestStep is the maximum number of seconds in one sample.
	usualPast   = history.Kept
	recentPast  = 60
	longestStep = 3600
	// mostReads is the number of concurrent answers; other requests wait for their turn.
	mostReads = 2
)

// Past is the history of the last minutes.
type Past interface {
	// Longest returns how many seconds back Of may reach.
	Longest() int
	// Of returns the history of a workload in the last seconds, and whether there is any. A sample covers step seconds,
	// or more if there are too many samples.
	Of(workload string, seconds, step int) (history.Past, bool, error)
	// Recent returns the throttling of all workloads in the last samples, at most this many.
	Recent(most int) (history.Past, error)
}

// With adds a history to the node.
func (n *Live[V]) With(p Past) *Live[V] {
	n.past = p
	return n
}

// Errors of requests for the past.
var (
	errNoPast   = errors.New("no history is kept here")
	errNotKept  = errors.New("nothing is kept of a workload of this name: it has no quota of Berth's, or there are more workloads than fit")
	errOnce     = errors.New("a parameter that is given twice")
	errUnknown  = errors.New("unknown parameter; allowed: workload, seconds, step")
	errNeedsOne = errors.New("only allowed with workload")
	errReadBusy = errors.New("too many ask for the history; try again")
	// errQuery means that the request is invalid.
	errQuery = errors.New("bad request")
)

// history sends the history of one workload or of all.
func (n *Live[V]) history(w http.ResponseWriter, r *http.Request) {
	text, err := n.pastText(r)
	if err != nil {
		code := codeOf(err)
		if code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "10")
		}
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close") // a later request would have the deadline of this one
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		n.log.Debug("history without a deadline", "error", err)
	}
	if _, err := w.Write(text); err != nil {
		n.log.Debug("history not sent", "error", err) // the client went away
	}
}

// codeOf returns the HTTP status for an error.
func codeOf(err error) int {
	switch {
	case errors.Is(err, errQuery):
		return http.StatusBadRequest
	case errors.Is(err, errNoPast), errors.Is(err, errNotKept):
		return http.StatusNotFound
	case errors.Is(err, errReadBusy):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// pastText returns the answer to a request, as JSON.
func (n *Live[V]) pastText(r *http.Request) ([]byte, error) {
	if n.past == nil {
		return nil, errNoPast
	}
	q, err := readQuery(r.URL.RawQuery, n.past.Longest())
	if err != nil {
		return nil, err
	}
	if err := n.enterRead(r.Context()); err != nil {
		return nil, err
	}
	defer func() { <-n.reads }()
	var p history.Past
	if !q.one {
		p, err = n.past.Recent(q.seconds)
	} else {
		var found bool
		if p, found, err = n.past.Of(q.workload, q.seconds, q.step); err == nil && !found {
			return nil, fmt.Errorf("workload %q: %w", q.workload, errNotKept)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return line(p)
}

// enterRead waits for a turn to make an answer, for at most patience.
func (n *Live[V]) enterRead(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case n.reads <- struct{}{}:
		return nil
	case <-late.C:
		return errReadBusy
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errReadBusy, ctx.Err())
	}
}

// query is a request for the history of one workload, or of all.
type query struct {
	one           bool
	workload      string
	seconds, step int
}

// readQuery reads the parameters of a request. longest is the maximum number of seconds for one workload.
func readQuery(raw string, longest int) (query, error) {
	all, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, fmt.Errorf("%w: %w", errQuery, err)
	}
	q := query{one: all.Has("workload"), workload: all.Get("workload"), seconds: recentPast, step: 1}
	most := recentPast
	if q.one {
		q.seconds, most = usualPast, longest
	}
	for name, values := range all {
		switch {
		case len(values) > 1:
			err = errOnce
		case name == "workload":
		case name == "seconds":
			q.seconds, err = readNumber(values[0], most)
		case name == "step" && !q.one:
			err = errNeedsOne
		case name == "step":
			q.step, err = readNumber(values[0], longestStep)
		default:
			err = errUnknown
		}
		if err != nil {
			return query{}, fmt.Errorf("%w: %q: %w", errQuery, name, err)
		}
	}
	return q, nil
}

// errRange means that a value is not a number or is out of range.
var errRange = errors.New("out of range")

// readNumber reads a number of at least 1.
func readNumber(value string, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%w: value %q: allowed: 1 to %d", errRange, value, most)
	}
	return n, nil
}
