package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
)

const (
	// opening is the longest time until a stream opens: the way to the agent of a node has several steps. silence is
	// the longest time without a byte of an agent that lives: a line of a large node may take longer on a slow way.
	opening = 30 * time.Second
	silence = 10 * time.Second
	// rest is the shortest time between two views: an agent that sends more lines gets no more work done here.
	rest = 200 * time.Millisecond
	// longestLine bounds the length of a line, in bytes. longestStream bounds a stream: each line may add workloads,
	// and a view with all of them stays in memory. After so many bytes the next stream begins, with a whole view.
	longestLine   = 64 << 20
	longestStream = 512 << 20
)

// Follower reads the views of a node from its streams. Only one goroutine may use it at a time.
type Follower struct {
	open        func(context.Context) (io.ReadCloser, error)
	line, total int64 // the longest line and the longest stream

	now    *view.View
	at     time.Time // of the last view
	stream *stream   // nil for none
}

// NewFollower returns a Follower of the streams that open returns. A stream must end with the context of its opening. If
// the context ends first, the error of open should name what did not answer, and wrap the cause of the context.
func NewFollower(open func(context.Context) (io.ReadCloser, error)) *Follower {
	return &Follower{open: open, line: longestLine, total: longestStream}
}

// Next returns the next view: a first view at once, and then one a second, when the agent sends it. It returns at most
// five a second. After an error the next call opens another stream. A stream ends with the context of the call that
// opened it. No code may change a view, because it shares parts with others.
func (f *Follower) Next(ctx context.Context) (*view.View, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // the caller ended it
	case <-time.After(time.Until(f.at.Add(rest))):
	}
	if f.stream == nil {
		s, err := begin(ctx, f.open)
		if err != nil {
			return nil, err
		}
		f.stream, f.now = s, nil
	}
	line, err := f.stream.next(f.line)
	if err == nil {
		f.now, err = f.now.Apply(line)
	}
	if err != nil || f.stream.read > f.total {
		f.stream.end(nil)
		_ = f.stream.body.Close() // nothing more is read
		f.stream = nil
	}
	if err != nil {
		return nil, err
	}
	f.at = time.Now()
	return f.now, nil
}

// stream is an open stream.
type stream struct {
	body  io.Closer
	bound *io.LimitedReader
	lines *bufio.Reader
	read  int64 // bytes
	late  *time.Timer
	// end ends it for a reason, which why returns.
	end context.CancelCauseFunc
	why func() error
}

// begin opens a stream.
func begin(ctx context.Context, open func(context.Context) (io.ReadCloser, error)) (*stream, error) {
	ctx, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(opening, func() { end(ErrSilent) })
	defer late.Stop()
	body, err := open(ctx)
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrSilent) && !errors.Is(err, ErrSilent) {
			err = fmt.Errorf("%w: %w", ErrSilent, err)
		}
		end(nil)
		return nil, err
	}
	s := &stream{body: body, end: end, why: func() error { return context.Cause(ctx) }}
	s.late = time.AfterFunc(silence, func() { end(ErrSilent) })
	s.bound = &io.LimitedReader{R: heard{body, s.late}}
	s.lines = bufio.NewReader(s.bound)
	return s, nil
}

// heard starts a timer again with each byte.
type heard struct {
	in   io.Reader
	late *time.Timer
}

// Read implements io.Reader.
func (h heard) Read(p []byte) (n int, err error) {
	if n, err = h.in.Read(p); n > 0 {
		h.late.Reset(silence)
	}
	return n, err //nolint:wrapcheck // it is a reader, and io.EOF has to stay what it is
}

// next returns the next line, of at most so many bytes, or a few more that were read before.
func (s *stream) next(most int64) ([]byte, error) {
	s.late.Reset(silence)
	defer s.late.Stop()
	s.bound.N = most
	line, err := s.lines.ReadBytes('\n')
	s.read += int64(len(line))
	switch why := s.why(); {
	case err == nil:
		return line, nil
	case why != nil:
		return nil, why
	case errors.Is(err, io.EOF) && s.bound.N <= 0:
		return nil, ErrLongLine
	case errors.Is(err, io.EOF):
		return nil, ErrEnded
	default:
		return nil, fmt.Errorf("%w: %w", ErrEnded, err)
	}
}
