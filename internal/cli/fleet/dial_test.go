package fleet

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// TestMain fails if a test leaves a goroutine behind, because every goroutine must be joined.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"User \"a\" cannot get resource \"pods/portforward\""}`

// answering starts an API server that refuses a WebSocket with a status and an answer. Without a WebSocket it serves a
// port that sends a text, or a failure. It records the methods of requests.
func answering(t *testing.T, status int, answer, text, failure string) (d dialer, methods chan string) {
	t.Helper()
	methods = make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods <- r.Method
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			t.Error(err)
		}
		streams := make(chan httpstream.Stream, 2)
		session := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if session == nil {
			return
		}
		defer session.Close()
		failed, data := <-streams, <-streams
		if failed.Headers().Get(v1.StreamType) != v1.StreamTypeError || data.Headers().Get(v1.PortHeader) != "9100" {
			t.Errorf("streams %v, %v", failed.Headers(), data.Headers())
		}
		_, _ = io.WriteString(failed, failure)
		_ = failed.Close()
		_, _ = io.WriteString(data, text)
		_ = data.Close()
		<-session.CloseChan()
	}))
	t.Cleanup(server.Close)
	d, err := newDialer(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return d, methods
}

// TestNoWebSocket checks that a connection works without a WebSocket if none gets through, and that a failure on the
// agent's node is an error.
func TestNoWebSocket(t *testing.T) {
	long := strings.Repeat("text", 1<<14)
	for name, test := range map[string]struct {
		text, failure string
		err           error
	}{
		"nothing": {"", "", nil},
		"bytes":   {long, "", nil},
		"failure": {"", "connection refused", ErrAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			d, methods := answering(t, http.StatusBadRequest, "no WebSockets here", test.text, test.failure)
			c, err := d.dial(t.Context(), target{pod: "agent", port: "9100"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(c)
			if string(got) != test.text || !errors.Is(err, test.err) || err != nil && !strings.Contains(err.Error(), test.failure) {
				t.Errorf("%d bytes, %v, want %d, %v", len(got), err, len(test.text), test.err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if first, second := <-methods, <-methods; first != http.MethodGet || second != http.MethodPost {
				t.Errorf("%s and %s", first, second)
			}
		})
	}
}

// TestForbidden checks that a missing right is reported in the API server's words, and that there is no second attempt
// by another protocol.
func TestForbidden(t *testing.T) {
	d, methods := answering(t, http.StatusForbidden, forbidden, "", "")
	_, err := d.dial(t.Context(), target{pod: "agent", port: "9100"})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "a" cannot get`) || len(methods) != 1 {
		t.Errorf("%v after %d requests", err, len(methods))
	}
}
