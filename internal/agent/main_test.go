package agent

import (
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain fails when a test leaves a goroutine behind. In the child of a benchmark it runs the benchmark's viewers, or
// its load. It disables the pause of Kubernetes' libraries between two errors: the time of the last error is a global of
// the process, and in a test with a fake clock it is decades away.
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
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] //nolint:reassign // That is what it is for.
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}
