package pin

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/observed"
)

// A kubelet that does not answer for a minute is reported once.
func TestSilentKubelet(t *testing.T) {
	t.Parallel()
	s := newNode(t, nil)
	now := time.Hour
	takes := func(r kubelet.Reading) {
		if _, err := s.opts.Hardware.TakeKubelet(r, now); err != nil {
			t.Error(err)
		}
	}
	messages := map[string]bool{}
	for i := range 30 {
		takes(kubelet.Reading{Err: fmt.Errorf("dialed from port %d: %w", i, io.ErrUnexpectedEOF)})
		o := s.opts.Hardware.Kubelet.Obstacle()
		if messages[o.Message] = true; !o.Suspends() || o.Lasting != (i >= 6) {
			t.Errorf("after %d s: %+v", 10*i, o)
		}
		// The message is the error after a minute, not an error from the kubelet's start.
		if port := fmt.Sprintf("port %d:", min(i/6, 1)*6); !strings.Contains(o.Message, port) {
			t.Errorf("after %d s: %q, want %s", 10*i, o.Message, port)
		}
		now += 10 * time.Second
	}
	if len(messages) != 2 {
		t.Errorf("reported %v", messages)
	}
	takes(kubelet.Reading{Whole: true})
	if o := s.opts.Hardware.Kubelet.Obstacle(); o != (observed.Obstacle{}) {
		t.Errorf("%+v", o)
	}
}
