package top

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-project/berth/internal/agent/view"
)

// TestQuestions checks that join waits for an open question, and that no question is asked afterwards.
func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q questions
		answer := make(chan string)
		var got tea.Msg
		go func() { got = q.ask(func() tea.Msg { return <-answer }) }()
		synctest.Wait()
		joined := false
		go func() {
			q.join()
			joined = true
		}()
		synctest.Wait()
		if joined {
			t.Error("joined while a question is open")
		}
		if msg := q.ask(func() tea.Msg { return "asked" }); msg != nil {
			t.Errorf("a question after the end: %v", msg)
		}
		answer <- "soon"
		synctest.Wait()
		if !joined || got != "soon" {
			t.Errorf("joined %t, answer %v", joined, got)
		}
	})
}

// TestRunJoins checks that no question to an agent is open after the user quits a host or a node of a cluster.
func TestRunJoins(t *testing.T) {
	nothing := func(*view.View, string) []string { return nil }
	for name, run := range map[string]func(Terminal, func(context.Context) (*view.View, error)) error{
		"host": func(on Terminal, look func(context.Context) (*view.View, error)) error {
			return Run(t.Context(), host(t, "one-socket-6c", 0), Options{Look: look, Explain: nothing, Terminal: on})
		},
		"node": func(on Terminal, look func(context.Context) (*view.View, error)) error {
			return RunCluster(t.Context(), shop(), ClusterOptions{
				Look: shop, Explain: nothing, Terminal: on,
				Node: func(string) func(context.Context) (*view.View, error) { return look },
			})
		},
	} {
		in, keys := io.Pipe()
		var out bytes.Buffer
		asked, answer := make(chan struct{}), make(chan struct{})
		var open atomic.Int32
		go func() {
			_, err := fmt.Fprint(keys, "\r")
			if err == nil {
				<-asked
				_, err = fmt.Fprint(keys, "q")
			}
			_ = keys.CloseWithError(err)
		}()
		err := run(Terminal{In: in, Out: &out, Environ: []string{"TERM=xterm-256color", "TTY_FORCE=1"}}, func(ctx context.Context) (*view.View, error) {
			open.Add(1)
			defer open.Add(-1)
			close(asked)
			<-ctx.Done()
			go close(answer)
			<-answer
			return nil, ctx.Err()
		})
		if n := open.Load(); err != nil || n != 0 {
			t.Errorf("%s: %d questions are open: %v", name, n, err)
		}
	}
}
