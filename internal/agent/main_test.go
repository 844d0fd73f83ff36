package agent

import (
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a test leaves a goroutine behind. In the child of a benchmark it runs the benchmark's viewers, or
// its load.
func TestMain(m *testing.M) {
	if part := os.Getenv(burnsPart); part != "" {
		if err := burn(part); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	if task := os.Getenv(viewersOf); task != "" {
		if err := look(task); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}
