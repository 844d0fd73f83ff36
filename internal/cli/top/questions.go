package top

import (
	"context"
	"sync"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-project/berth/internal/agent/view"
)

// questions joins what asks an agent, because a program of bubbletea ends without a wait for its commands.
type questions struct {
	mu   sync.Mutex
	over bool
	open sync.WaitGroup
}

// ask returns the answer to a question, nil if the program has ended.
func (q *questions) ask(question func() tea.Msg) tea.Msg {
	if !q.begin() {
		return nil
	}
	defer q.open.Done()
	return question()
}

// views returns a command that asks for the next view.
func (q *questions) views(ctx context.Context, next func(context.Context) (*view.View, error)) tea.Cmd {
	return func() tea.Msg {
		return q.ask(func() tea.Msg {
			v, err := next(ctx)
			return looked{v, err}
		})
	}
}

// begin reports whether the program still asks. If so, the caller reports the end of its question to open.
func (q *questions) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.over {
		q.open.Add(1)
	}
	return !q.over
}

// join waits for the open questions, and allows no further question.
func (q *questions) join() {
	q.mu.Lock()
	q.over = true
	q.mu.Unlock()
	q.open.Wait()
}
