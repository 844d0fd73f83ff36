package fleet

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// agentPod is the pod of an agent in a phase, with further fields of its status.
func agentPod(phase, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":"agent"},"spec":{"nodeName":"node-a"},"status":{"phase":%q%s}}`, phase, more)
}

// The pods of agents that cannot answer.
const (
	notReady  = `,"conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady","message":"containers with unready status: [berth-agent]"}]`
	waiting   = `,"containerStatuses":[{"name":"berth-agent","state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off \u001b[2J 10s"}}}]`
	ended     = `,"containerStatuses":[{"name":"berth-agent","state":{"terminated":{"exitCode":4,"reason":"Error"}}}]`
	evicted   = `,"reason":"Evicted","message":"the node was low on memory"`
	going     = `{"metadata":{"name":"agent","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"nodeName":"node-a"},"status":{"phase":"Running"}}`
	forwarded = "port-forward to port 9316 of pod berth-system/agent"
)

// TestNoAgentSaysWhy checks that a user who asks for the page of a node learns what its agent's pod lacks.
func TestNoAgentSaysWhy(t *testing.T) {
	for name, test := range map[string]struct{ pods, says string }{
		"none":      {list("v1", "Pod"), ": node node-a has no pod with the label app.kubernetes.io/name=berth-agent in berth-system (a pod that is not scheduled yet is on no node): allowed: a node that kubectl berth status shows with an agent"},
		"waiting":   {list("v1", "Pod", agentPod("Pending", waiting)), ": pod berth-system/agent on node node-a: Pending, container berth-agent waits: CrashLoopBackOff: back-off ?[2J 10s"},
		"evicted":   {list("v1", "Pod", agentPod("Failed", evicted)), ": pod berth-system/agent on node node-a: Failed: Evicted: the node was low on memory"},
		"going":     {list("v1", "Pod", going), ": pod berth-system/agent on node node-a: it is being deleted"},
		"two of it": {list("v1", "Pod", going, agentPod("Failed", evicted)), "; pod berth-system/agent on node node-a: Failed: "},
	} {
		t.Run(name, func(t *testing.T) {
			page := refused(t, test.pods, http.StatusInternalServerError, "nobody asks")
			if _, err := page.View(t.Context()); !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), ErrNoAgent.Error()) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %s", err, test.says)
			}
		})
	}
}

// TestForwardSaysWhy checks that a failed port-forward names pod and port, what the pod lacks, and the answer of the
// API server.
func TestForwardSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		pod    string
		status int
		answer string
		says   string
		is     func(error) bool
	}{
		"forbidden": {agentPod("Running", ""), http.StatusForbidden, forbidden, forwarded + `: User "a" cannot get resource "pods/portforward"`, apierrors.IsForbidden},
		"gone":      {agentPod("Running", ""), http.StatusNotFound, statusOf(404, "NotFound", `pods "agent" not found`), `pods "agent" not found`, always},
		"no kubelet": {
			agentPod("Running", ""), http.StatusInternalServerError, statusOf(500, "InternalError", "error dialing backend: dial tcp 198.51.100.1:10250: connect: connection refused"),
			"error dialing backend: dial tcp 198.51.100.1:10250: connect: connection refused", always,
		},
		"no status": {agentPod("Running", ""), http.StatusBadGateway, "the proxy has no way", "the proxy has no way", always},
		"not ready": {agentPod("Running", notReady), http.StatusForbidden, forbidden, forwarded + ", which is not ready (Ready is False: ContainersNotReady: containers with unready status: [berth-agent]): User", always},
		"ended":     {agentPod("Running", ended), http.StatusForbidden, forbidden, forwarded + ", which is not ready (container berth-agent ended with exit code 4: Error): User", always},
	} {
		t.Run(name, func(t *testing.T) {
			page := refused(t, list("v1", "Pod", test.pod), test.status, test.answer)
			_, err := page.View(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), "ask the agent: "+forwarded) || !strings.Contains(err.Error(), test.says) || !test.is(err) {
				t.Errorf("%v, want %s", err, test.says)
			}
		})
	}
}

func always(error) bool { return true }

// statusOf is an answer of the API server.
func statusOf(code int, reason, message string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason, code, message)
}

// refused returns the page of a node whose cluster has these pods of agents, and answers each port-forward with a
// status and a text.
func refused(t *testing.T, pods string, status int, answer string) *Page {
	t.Helper()
	return forwarding(t, pods, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	})
}

// forwarding returns the page of a node whose cluster has these pods of agents, and a handler for port-forwards.
func forwarding(t *testing.T, pods string, handler http.HandlerFunc) *Page {
	t.Helper()
	s := serve(t)
	s.lists[agentsPath] = pods
	s.lists[tokenPath] = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","status":{"token":"good","expirationTimestamp":"2100-01-01T00:00:00Z"}}`
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == forwardPath {
			handler(w, r)
			return
		}
		s.ServeHTTP(w, r)
	})
	c, err := follow(t, s)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := c.Node("node-a")
	return page
}

// TestNodeSaysWhy checks that a user reads what the node answered to a port-forward whose session did open, as it is if
// the agent does not listen.
func TestNodeSaysWhy(t *testing.T) {
	page := forwarding(t, list("v1", "Pod", agentPod("Running", notReady)), func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusBadRequest) // no WebSockets
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
		for range 2 {
			s := <-streams
			if s.Headers().Get(v1.StreamType) == v1.StreamTypeError {
				_, _ = io.WriteString(s, "dial tcp4 127.0.0.1:9316:\nconnection refused\x1b[2J")
			}
			_ = s.Close()
		}
		<-session.CloseChan()
	})
	const want = "ask the agent: " + forwarded + ", which is not ready (Ready is False: ContainersNotReady: containers with unready status: [berth-agent]): refused: dial tcp4 127.0.0.1:9316: connection refused?[2J"
	if _, err := page.View(t.Context()); !errors.Is(err, ErrAnswer) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
