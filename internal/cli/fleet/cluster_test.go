package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/scheduler/simulate"
	"github.com/berth-project/berth/test/patience"
)

// The paths of the lists.
const (
	listPath       = "/api/v1/nodes"
	podsPath       = "/api/v1/pods"
	topologiesPath = "/apis/berth.dev/v1alpha1/nodetopologies"
	leasesPath     = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases"
)

// server is an API server.
type server struct {
	*httptest.Server

	mu sync.Mutex
	// lists maps paths to answers. refused maps requests, by verb and path, to the statuses with which the server
	// refuses them.
	lists   map[string]string
	refused map[string]int
	asked   []string
	// events are the lines of watches by path.
	events map[string]chan string
}

// serve starts a server with one node and no pod.
func serve(t *testing.T) *server {
	t.Helper()
	lease := fmt.Sprintf(`{"metadata":{"name":"node-a"},"spec":{"renewTime":%q}}`, time.Now().Format(metav1.RFC3339Micro))
	s := &server{refused: map[string]int{}, events: map[string]chan string{}, lists: map[string]string{
		listPath:       list("v1", "Node", `{"metadata":{"name":"node-a"},"status":{"allocatable":{"cpu":"8","memory":"8Gi","pods":"50"}}}`),
		podsPath:       list("v1", "Pod"),
		leasesPath:     list("coordination.k8s.io/v1", "Lease", lease),
		topologiesPath: list("berth.dev/v1alpha1", "NodeTopology", `{"metadata":{"name":"node-a"},"spec":{"hash":"d2b98985b7cae569","online":"0-7","numaNodes":[{"id":0,"cpus":"0-7","memoryBytes":8589934592,"distances":[10]}],"l3":[{"id":0,"cpus":"0-3"},{"id":1,"cpus":"4-7"}],"cores":["0-1","2-3","4-5","6-7"]}}`),
	}}
	for path := range s.lists {
		s.events[path] = make(chan string, 8)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func list(version, kind string, items ...string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1"},"items":[%s]}`, version, kind+"List", strings.Join(items, ","))
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb := map[bool]string{true: "watch", false: "list"}[r.URL.Query().Has("watch")]
	s.mu.Lock()
	s.asked = append(s.asked, verb+" "+r.URL.Path)
	text, status := s.lists[r.URL.Path], s.refused[verb+" "+r.URL.Path]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if status == 0 && text == "" {
		status = http.StatusNotFound
	}
	switch {
	case status != 0:
		w.WriteHeader(status)
		reason := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound}[status]
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(status), //nolint:gosec // a status
			Message: fmt.Sprintf("User %q cannot %s resource %q", "a", verb, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]),
		})
	case verb == "list":
		_, _ = io.WriteString(w, text)
	default:
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case line := <-s.events[r.URL.Path]:
				_, _ = io.WriteString(w, line+"\n")
				_ = http.NewResponseController(w).Flush()
			}
		}
	}
}

// refuse makes the server answer a request with a status, 0 for success.
func (s *server) refuse(request string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[request] = status
}

func follow(t *testing.T, s *server) (*Cluster, error) {
	t.Helper()
	c, err := Follow(t.Context(), &rest.Config{Host: s.URL, Timeout: time.Minute, QPS: -1}, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

// until polls a cluster until as returns true.
func until(t *testing.T, c *Cluster, as func(*view.Cluster) bool) *view.Cluster {
	t.Helper()
	var v *view.Cluster
	err := patience.Until(t.Context(), time.Millisecond, func() string {
		if v = c.View(); !as(v) {
			return fmt.Sprintf("%d nodes, %d pending, %q", len(v.Nodes), v.PendingTotal, v.Problems)
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestFollow checks that each kind is listed once, and that watched changes are shown.
func TestFollow(t *testing.T) {
	s := serve(t)
	c, err := follow(t, s)
	if err != nil {
		t.Fatal(err)
	}
	v := until(t, c, func(*view.Cluster) bool { return true })
	if len(v.Nodes) != 1 || v.Nodes[0].FreeCPUs != 6 || v.Nodes[0].Obstacle != "" || v.PendingTotal != 0 || len(v.Problems) != 0 || v.Server != s.URL {
		t.Errorf("%+v", v)
	}
	pod := v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", ResourceVersion: "2"}}
	pod.Spec.Containers, pod.Spec.SchedulerName = []v1.Container{{Name: "main"}}, "berth-scheduler"
	s.send(t, podsPath, "ADDED", pod)
	v = until(t, c, func(v *view.Cluster) bool { return v.PendingTotal == 1 })
	if p := v.Pending[0]; p.Pod != "web" || p.Why != "node-a would take it now" {
		t.Errorf("%+v", p)
	}
	pod.Spec.NodeName, pod.ResourceVersion = "node-a", "3"
	s.send(t, podsPath, "MODIFIED", pod)
	until(t, c, func(v *view.Cluster) bool { return v.PendingTotal == 0 && v.Nodes[0].Pods == 1 })
	node := v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "node-a", ResourceVersion: "4"}}
	s.send(t, listPath, "DELETED", node)
	until(t, c, func(v *view.Cluster) bool { return len(v.Nodes) == 0 })
	if _, there := c.Node("node-a"); there {
		t.Error("a node that has gone has a page")
	}
	want := []string{"list " + listPath, "list " + podsPath, "list " + topologiesPath, "list " + leasesPath, "watch " + listPath, "watch " + podsPath, "watch " + topologiesPath, "watch " + leasesPath}
	slices.Sort(want)
	err = patience.Until(t.Context(), time.Millisecond, func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		if asked := slices.Sorted(slices.Values(s.asked)); !slices.Equal(asked, want) {
			return fmt.Sprintf("asked for %q", asked)
		}
		return ""
	})
	if err != nil {
		t.Error(err)
	}
}

// send sends an object to the watches of a path.
func (s *server) send(t *testing.T, path, kind string, object any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		t.Fatal(err)
	}
	s.events[path] <- string(text)
}

// TestFollowLacksRights checks that a user who may not list learns which right is missing. A user who may not watch
// sees lists and a notice; without Leases everything else is shown.
func TestFollowLacksRights(t *testing.T) {
	for _, path := range []string{listPath, podsPath, topologiesPath} {
		s := serve(t)
		s.refuse("list "+path, http.StatusForbidden)
		resource := path[strings.LastIndex(path, "/")+1:]
		if _, err := follow(t, s); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `cannot list resource "`+resource+`"`) {
			t.Errorf("%s: %v", path, err)
		}
	}
	s := serve(t)
	s.refuse("list "+topologiesPath, http.StatusNotFound)
	if _, err := follow(t, s); err == nil || !strings.Contains(err.Error(), simulate.ErrNoTopologies.Error()) {
		t.Errorf("without the kind: %v", err)
	}
	s = serve(t)
	s.refuse("list "+leasesPath, http.StatusForbidden)
	s.refuse("watch "+listPath, http.StatusForbidden)
	c, err := follow(t, s)
	if err != nil {
		t.Fatal(err)
	}
	v := until(t, c, func(v *view.Cluster) bool { return len(v.Problems) == 2 })
	if len(v.Nodes) != 1 || !strings.Contains(v.Problems[0], `cannot list resource "leases"`) || !strings.Contains(v.Problems[1], `nodes are those of `) || !strings.Contains(v.Problems[1], `cannot watch resource "nodes"`) {
		t.Errorf("%q, %+v", v.Problems, v.Nodes)
	}
	s.refuse("watch "+listPath, 0)
	until(t, c, func(v *view.Cluster) bool { return len(v.Problems) == 1 })
}

// TestFollowNoServer checks that an unreachable server is named at once.
func TestFollowNoServer(t *testing.T) {
	s := serve(t)
	s.Close()
	if _, err := follow(t, s); err == nil || !strings.Contains(err.Error(), s.URL) {
		t.Errorf("%v", err)
	}
}

// cable is the way to a server. While it is cut, connections are refused, as by a host whose server has ended.
type cable struct {
	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

// dial opens a connection.
func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

// cut ends all connections, and refuses others until mend.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.isCut = true; len(c.conns) > 0; c.conns = c.conns[1:] {
		_ = c.conns[0].Close()
	}
}

// mend lets connections through again.
func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = false
}

// TestServerEnds checks that a cluster whose API server ends keeps its nodes. It reports the time of its data and the
// reason, until the server is back.
func TestServerEnds(t *testing.T) {
	s, way := serve(t), &cable{}
	c, err := Follow(t.Context(), &rest.Config{Host: s.URL, QPS: -1, Dial: way.dial}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if v := c.View(); len(v.Nodes) != 1 || len(v.Problems) != 0 {
		t.Fatalf("%+v, %q", v.Nodes, v.Problems)
	}
	c.nodes.mu.Lock()
	heard := c.nodes.heard.Format(time.TimeOnly)
	c.nodes.mu.Unlock()
	way.cut()
	v := until(t, c, func(v *view.Cluster) bool { return len(v.Problems) == len(c.kinds()) })
	for i, k := range c.kinds() {
		if problem := v.Problems[i]; !strings.HasPrefix(problem, k.what+" are those of ") || !strings.Contains(problem, "connection refused") {
			t.Errorf("%s: %q", k.what, problem)
		}
	}
	if len(v.Nodes) != 1 || v.Nodes[0].Name != "node-a" || !strings.HasPrefix(v.Problems[0], "nodes are those of "+heard+": ") {
		t.Errorf("nodes %+v, heard at %s: %q", v.Nodes, heard, v.Problems)
	}
	if _, there := c.Node("node-a"); !there {
		t.Error("the node has no page")
	}
	way.mend()
	v = until(t, c, func(v *view.Cluster) bool { return len(v.Problems) == 0 })
	if len(v.Nodes) != 1 {
		t.Errorf("the server is back: %+v", v.Nodes)
	}
}
