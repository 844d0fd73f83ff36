package cookies

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/isolate"
)

// TestCookieNeedless checks that no cookie is needed while offline work has its own cores, and that this is no problem.
func TestCookieNeedless(t *testing.T) {
	t.Parallel()
	c := New(nil)
	d := c.Decide(time.Hour, "agent.yaml", []string{"batch"}, isolate.Sharing{Cores: true})
	if len(d) > 0 || c.Problem() != "" || c.Isolates() || c.Status().Reason != "offline work has cores of its own" {
		t.Errorf("%+v, %+v", d, c.Status())
	}
}
