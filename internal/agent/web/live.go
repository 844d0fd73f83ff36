package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/window"
)

const (
	// lineEvery is the time between two lines of a stream. madeEvery is the minimum time between two views: each locks
	// the agent's mutex, for which requests of the container runtime wait.
	lineEvery = time.Second
	madeEvery = 200 * time.Millisecond
	// patience is how long a viewer may need to read a line.
	patience = 5 * time.Second
	// keptLines is how many lines a viewer may be behind before it gets a whole view again.
	keptLines = 8
	// mostViewers bounds the streams.
	mostViewers = 100
)

// Live shows a node, or a cluster, to all viewers. It is safe for concurrent use.
type Live[V any] struct {
	look  func() (*V, error)
	delta func(now, before *V) view.Delta
	// split is nil if the data has no patches.
	split func(*V) *view.Parts
	page  func() *http.ServeMux
	log   *slog.Logger
	// past is nil without a history. reads has one slot for each concurrent answer from it.
	past  Past
	reads chan struct{}

	mu      sync.Mutex
	viewers int
	// readers are the viewers by the form of their lines.
	readers [forms]int
	// now is the last view that was made. shown is the view that viewers have after the last line.
	now, shown *moment[V]
	// lines are the last lines of each form that has readers. number is the number of the newest line, due the time of
	// the next.
	lines  [forms][][]byte
	number int
	due    time.Time
}

// form is how a line shows changed entries.
type form int

const (
	whole   form = iota // as they are now
	patched             // as merge patches
	forms
)

// moment is a view, and its encoded line once a viewer needs it.
type moment[V any] struct {
	view *V
	at   time.Time
	text []byte
	// parts are nil until a reader takes patches.
	parts *view.Parts
}

// line returns the view as a line, encoded once for all viewers.
func (m *moment[V]) line() (text []byte, err error) {
	if m.text == nil {
		m.text, err = line(m.view)
	}
	return m.text, err
}

// NewNode shows the present views that look returns. No code may change a view afterwards.
func NewNode(look func() (*view.View, error), log *slog.Logger) *Live[view.View] {
	return &Live[view.View]{
		look: look, delta: (*view.View).Since, split: (*view.View).Parts, page: nodePage, log: log, reads: make(chan struct{}, mostReads),
	}
}

// NewCluster is NewNode for a cluster. Its page links to nodes/NAME/ of each node.
func NewCluster(look func() (*view.Cluster, error), log *slog.Logger) *Live[view.Cluster] {
	return &Live[view.Cluster]{look: look, delta: (*view.Cluster).Since, page: clusterPage, log: log}
}

// Handler returns the handler for the page and its data.
func (n *Live[V]) Handler() http.Handler {
	mux := n.page()
	mux.HandleFunc("GET "+window.ViewPath, n.view)
	mux.HandleFunc("GET "+window.StreamPath, n.stream)
	mux.HandleFunc("GET "+window.PastPath, n.history)
	return mux
}

// view sends the present view.
func (n *Live[V]) view(w http.ResponseWriter, _ *http.Request) {
	text, err := n.text()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(text); err != nil {
		n.log.Debug("view not sent", "error", err) // the client went away
	}
}

// text returns a recent view, as a line.
func (n *Live[V]) text() ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, err := n.made()
	if err != nil {
		return nil, err
	}
	return now.line()
}

// made returns a recent view. The caller holds the mutex.
func (n *Live[V]) made() (*moment[V], error) {
	if n.now != nil && time.Since(n.now.at) < madeEvery {
		return n.now, nil
	}
	v, err := n.look()
	if err != nil {
		return nil, err
	}
	n.now = &moment[V]{view: v, at: time.Now()}
	if n.viewers == 0 {
		n.forgetLater()
	}
	return n.now, nil
}

// forgetLater removes the stored view in a while, unless a viewer needs it then. A view of a large node has megabytes. A
// view that was removed at once would be made again for the next request.
func (n *Live[V]) forgetLater() { time.AfterFunc(madeEvery, n.forget) }

// forget removes the stored view if it has no viewer and is old. A younger view has a timer of its own.
func (n *Live[V]) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.viewers == 0 && n.now != nil && time.Since(n.now.at) >= madeEvery {
		n.now = nil
	}
}

// errCrowd means that the maximum number of viewers is reached.
var errCrowd = fmt.Errorf("%d pages are open already; close one", mostViewers)

// enter adds a viewer that reads a form.
func (n *Live[V]) enter(f form) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.viewers == mostViewers {
		return errCrowd
	}
	n.viewers++
	n.readers[f]++
	return nil
}

// leave removes a viewer.
func (n *Live[V]) leave(f form) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.readers[f]--; n.readers[f] == 0 {
		n.lines[f] = nil // an agent stores no line that has no reader
	}
	if n.viewers--; n.viewers == 0 {
		n.shown = nil
		n.forgetLater()
	}
}

// stream sends a view, and then changes, until the viewer goes away or is too slow.
func (n *Live[V]) stream(w http.ResponseWriter, r *http.Request) {
	f := whole
	if n.split != nil && r.URL.Query().Has(window.Patches) {
		f = patched
	}
	if err := n.enter(f); err != nil {
		w.Header().Set("Retry-After", "5") // for other clients: the page and berth top wait 1 s at first, and 5 s at most
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer n.leave(f)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Connection", "close") // a later request would have the deadline of a viewer
	if r.Method == http.MethodHead {
		return
	}
	if err := n.send(w, r, f); err != nil {
		n.log.Debug("viewer dropped", "viewer", r.RemoteAddr, "error", err)
	}
}

// send sends lines as they come. If there is no first line, it sends the reason as an error.
func (n *Live[V]) send(w http.ResponseWriter, r *http.Request, f form) error {
	for seen := -1; ; {
		lines, number, wait, err := n.since(seen, f)
		if err != nil && seen < 0 {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
		if err == nil {
			err = pass(w, lines)
		}
		if err != nil {
			return err
		}
		seen = number
		select {
		case <-r.Context().Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// pass sends lines to a viewer who reads them in time.
func pass(w http.ResponseWriter, lines [][]byte) error {
	out := http.NewResponseController(w)
	if err := out.SetWriteDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("deadline of a viewer: %w", err)
	}
	for _, line := range lines {
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("send to a viewer: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("send to a viewer: %w", err)
	}
	return nil
}

// since returns the lines of a form after line number seen, the number of the last line, and how long to wait for the
// next. A new viewer, or a viewer that is far behind, first gets a whole view.
func (n *Live[V]) since(seen int, f form) (lines [][]byte, number int, wait time.Duration, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.advance(); err != nil {
		return nil, 0, 0, err
	}
	wait = max(time.Until(n.due), time.Millisecond)
	if behind := n.number - seen; seen >= 0 && behind <= len(n.lines[f]) {
		return n.lines[f][len(n.lines[f])-behind:], n.number, wait, nil
	}
	all, err := n.shown.line()
	if err != nil {
		return nil, 0, 0, err
	}
	return [][]byte{all}, n.number, wait, nil
}

// advance makes the next line, if it is due. The caller holds the mutex.
func (n *Live[V]) advance() error {
	if n.shown != nil && time.Now().Before(n.due) {
		return nil
	}
	now, err := n.made()
	if err != nil {
		return err
	}
	if n.shown != nil {
		if err := n.add(now); err != nil {
			return err
		}
		n.number++
	}
	n.shown, n.due = now, time.Now().Add(lineEvery)
	return nil
}

// add makes the next line of each form that has readers. A reader of another form begins with a whole view.
func (n *Live[V]) add(now *moment[V]) error {
	lines := n.lines
	for f, readers := range n.readers {
		if readers == 0 {
			continue
		}
		next, err := n.changed(form(f), now, n.shown)
		if err != nil {
			return err
		}
		if len(lines[f]) == keptLines {
			lines[f] = lines[f][1:]
		}
		lines[f] = append(slices.Clip(lines[f]), next) // viewers still read the old list
	}
	n.lines = lines
	return nil
}

// changed returns the line from one moment to the next.
func (n *Live[V]) changed(f form, now, before *moment[V]) ([]byte, error) {
	if f == whole {
		return n.delta(now.view, before.view).Line()
	}
	for _, m := range []*moment[V]{now, before} {
		if m.parts == nil {
			m.parts = n.split(m.view)
		}
	}
	return now.parts.Since(before.parts)
}

// line encodes a value as a line.
func line(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode view: %w", err)
	}
	return append(text, '\n'), nil
}
