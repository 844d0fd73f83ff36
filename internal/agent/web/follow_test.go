package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/window"
)

// answer writes what a handler answers into a pipe.
type answer struct{ *io.PipeWriter }

// Header, WriteHeader, Flush and SetWriteDeadline make answer a response writer.
func (answer) Header() http.Header              { return http.Header{} }
func (answer) WriteHeader(int)                  {}
func (answer) Flush()                           {}
func (answer) SetWriteDeadline(time.Time) error { return nil }

// piped returns streams that write fills. Like those of HTTP, each ends with its context.
func piped(write func(context.Context, *io.PipeWriter)) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		in, out := io.Pipe()
		context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
		go func() {
			write(ctx, out)
			_ = out.Close()
		}()
		return in, nil
	}
}

// TestFollower checks that a follower has the views of the agent, one a second, and that it opens another stream after
// the end of one.
func TestFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		h := &host{}
		node := NewNode(h.look, quiet()).Handler()
		f := NewFollower(piped(func(ctx context.Context, out *io.PipeWriter) {
			node.ServeHTTP(answer{out}, httptest.NewRequestWithContext(ctx, http.MethodGet, window.StreamPath, http.NoBody))
		}))
		next := func(number float64) {
			t.Helper()
			v, err := f.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if v.Format != view.Format || v.LoadSeconds != number || len(v.Workloads) != 1 || v.Workloads[0].Name != "a" {
				t.Errorf("view %v: %+v", number, v)
			}
		}
		began := time.Now()
		for number := range 5 {
			next(float64(number + 1))
		}
		if passed := time.Since(began); passed != 4*lineEvery || h.looks.Load() != 5 {
			t.Errorf("%d looks in %v, want 5 in %v", h.looks.Load(), passed, 4*lineEvery)
		}
		h.wrong.Store(true)
		if v, err := f.Next(ctx); v != nil || !errors.Is(err, ErrEnded) {
			t.Errorf("%+v: %v", v, err)
		}
		h.wrong.Store(false)
		next(6)
		next(7)
		end()
		if v, err := f.Next(ctx); v != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %+v: %v", v, err)
		}
	})
}

// TestFollowerOfSilentAgent checks that an agent which opens no stream, and an agent which sends nothing more, are left
// after a while.
func TestFollowerOfSilentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			open func(context.Context) (io.ReadCloser, error)
			want time.Duration
			says string
		}{
			"no stream": {func(ctx context.Context) (io.ReadCloser, error) {
				<-ctx.Done()
				return nil, fmt.Errorf("open: %w", context.Cause(ctx))
			}, opening, "open: the agent is silent"},
			"no stream without a cause": {func(ctx context.Context) (io.ReadCloser, error) {
				<-ctx.Done()
				return nil, fmt.Errorf("open: %w", ctx.Err())
			}, opening, "the agent is silent: open: context canceled"},
			"no line": {piped(func(ctx context.Context, _ *io.PipeWriter) { <-ctx.Done() }), silence, "the agent is silent"},
			"half a line": {piped(func(ctx context.Context, out *io.PipeWriter) {
				_, _ = io.WriteString(out, `{"v":1`)
				<-ctx.Done()
			}), silence, "the agent is silent"},
		} {
			began := time.Now()
			v, err := NewFollower(test.open).Next(t.Context())
			if passed := time.Since(began); v != nil || !errors.Is(err, ErrSilent) || passed != test.want || err.Error() != test.says {
				t.Errorf("%s: %+v after %v: %v", name, v, passed, err)
			}
		}
	})
}

// TestFollowerOfSlowWay checks that a line is read to its end while bytes of it arrive, however long that takes.
func TestFollowerOfSlowWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const line = `{"v":1,"version":"slow"}` + "\n"
		began := time.Now()
		f := NewFollower(piped(func(ctx context.Context, out *io.PipeWriter) {
			for i := range line {
				time.Sleep(silence - time.Second)
				_, _ = io.WriteString(out, line[i:i+1])
			}
			<-ctx.Done()
		}))
		v, err := f.Next(t.Context())
		if passed, want := time.Since(began), time.Duration(len(line))*(silence-time.Second); err != nil || v.Version != "slow" || passed != want {
			t.Errorf("%+v after %v, want %v: %v", v, passed, want, err)
		}
		f.stream.end(nil)
	})
}

// TestFollowerBounds checks that no agent fills the memory of its viewer, neither with a line nor with a stream, and
// that no agent keeps its viewer busy.
func TestFollowerBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		first := `{"v":1,"version":"` + strings.Repeat("x", 80) + `"}` + "\n"
		f := NewFollower(piped(func(_ context.Context, out *io.PipeWriter) {
			opened++
			_, err := io.WriteString(out, first)
			for err == nil {
				_, err = io.WriteString(out, `{"set":{"version":"`+strings.Repeat("y", 80)+`"}}`+"\n")
			}
		}))
		f.total = 350 // three lines are below, four above
		var letters strings.Builder
		began := time.Now()
		for range 9 {
			v, err := f.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			letters.WriteString(v.Version[:1])
		}
		if letters.String() != "xyyyxyyyx" || opened != 3 {
			t.Errorf("views %s of %d streams", letters.String(), opened)
		}
		if passed := time.Since(began); passed != 8*rest {
			t.Errorf("9 views in %v, want 8 pauses of %v", passed, rest)
		}
		f.stream.end(nil)

		f = NewFollower(piped(func(_ context.Context, out *io.PipeWriter) {
			for err := error(nil); err == nil; {
				_, err = io.WriteString(out, "x")
			}
		}))
		f.line = 10_000
		if v, err := f.Next(t.Context()); v != nil || !errors.Is(err, ErrLongLine) {
			t.Errorf("%+v: %v", v, err)
		}
	})
}

// TestFollowerNamesErrors checks the errors of streams that cannot be read.
func TestFollowerNamesErrors(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want error
	}{
		"nothing": {"", ErrEnded}, "half a line": {`{"v":1`, ErrEnded}, "another format": {`{"v":2}` + "\n", view.ErrFormat},
		"a change first": {`{"set":{}}` + "\n", view.ErrNoView},
	} {
		f := NewFollower(func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(test.body)), nil })
		for range 2 {
			if v, err := f.Next(t.Context()); v != nil || !errors.Is(err, test.want) {
				t.Errorf("%s: %+v: %v", name, v, err)
			}
		}
	}
	f := NewFollower(func(context.Context) (io.ReadCloser, error) { return nil, errWrong })
	if v, err := f.Next(t.Context()); v != nil || !errors.Is(err, errWrong) {
		t.Errorf("no stream: %+v: %v", v, err)
	}
}
