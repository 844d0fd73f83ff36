package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// However often a client asks whether the agent is ready, too.
func TestReadinessIsFoundOutNowAndThen(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		wants := func(step string, code int) {
			t.Helper()
			if got, text := m.readyz(); got != code {
				t.Errorf("%s: %d %s", step, got, text)
			}
		}
		wants("after the first pass", http.StatusOK)
		c := m.controls
		c.mu.Lock() // as a pass does
		c.ready = false
		for range 100 {
			wants("during a pass", http.StatusOK)
		}
		c.mu.Unlock()
		time.Sleep(answerEvery + time.Millisecond)
		wants("later", http.StatusServiceUnavailable)
	})
}

// However often a client asks for the status, the mutex is taken a few times a second.
func TestStatusIsMadeNowAndThen(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		c := m.controls
		ask := func() string {
			answer := httptest.NewRecorder()
			c.serveStatus(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, statusPath, http.NoBody))
			if answer.Code != http.StatusOK {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
			return answer.Body.String()
		}
		first := ask()
		c.mu.Lock() // as a pass does
		for range 100 {
			if ask() != first {
				t.Error("another answer within an instant")
			}
		}
		c.mu.Unlock()
		time.Sleep(answerEvery + time.Millisecond)
		if ask() == first {
			t.Error("the answer of before")
		}
	})
}
