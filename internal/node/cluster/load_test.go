package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// counted is an API server with one empty node, which counts its requests.
type counted struct {
	mu      sync.Mutex
	objects map[string]map[string]any
	version int
	asked   map[string]int
	// away is the error of every request, nil while the server answers.
	away error
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	away := c.away
	c.mu.Unlock()
	if away != nil {
		return nil, away
	}
	response, err := c.answer(r)
	if response != nil {
		response.Request = r
	}
	return response, err
}

func (c *counted) answer(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	query := r.URL.Query()
	verb, kind := r.Method, path.Base(r.URL.Path)
	if _, one := c.objects[r.URL.Path]; one || strings.Contains(r.URL.Path, "/leases/") || strings.Contains(r.URL.Path, "/nodetopologies/") {
		kind = path.Base(path.Dir(r.URL.Path))
	}
	if query.Get("watch") != "" {
		verb = "WATCH"
	}
	c.asked[verb+" "+kind]++
	switch verb {
	case "WATCH":
		return c.follow(r, query.Get("timeoutSeconds"), query.Get("sendInitialEvents") == "true")
	case http.MethodPost, http.MethodPut:
		return c.write(r, body)
	}
	if object, found := c.objects[r.URL.Path]; found {
		return answer(http.StatusOK, object)
	}
	if kind != path.Base(r.URL.Path) {
		return refused(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
	return answer(http.StatusOK, listOf(kind, c.version))
}

// write stores an object under its name.
func (c *counted) write(r *http.Request, body []byte) (*http.Response, error) {
	object := map[string]any{}
	if decoded, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil { // an object in protobuf
		decoded.GetObjectKind().SetGroupVersionKind(*kind)
		if body, err = json.Marshal(decoded); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		return refused(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
	c.version++
	meta["resourceVersion"] = strconv.Itoa(c.version)
	name := strings.TrimSuffix(r.URL.Path, "/status")
	if r.Method == http.MethodPost {
		name = path.Join(name, fmt.Sprint(meta["name"]))
	}
	c.objects[name] = object
	return answer(http.StatusOK, object)
}

// follow answers a watch without events until the client's timeout.
func (c *counted) follow(r *http.Request, seconds string, initial bool) (*http.Response, error) {
	limit, err := strconv.Atoi(seconds)
	if err != nil {
		return nil, fmt.Errorf("a watch without an end: %w", err)
	}
	reader, writer := io.Pipe()
	var first []byte
	if initial {
		first = fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":%q,"metadata":{"resourceVersion":"%d","annotations":{%q:"true"}}}}`,
			kindOf(path.Base(r.URL.Path)), c.version, metav1.InitialEventsAnnotationKey)
	}
	go func() {
		timer := time.NewTimer(time.Duration(limit) * time.Second)
		defer timer.Stop()
		_, err := writer.Write(first)
		select {
		case <-timer.C:
		case <-r.Context().Done():
			err = errors.Join(err, r.Context().Err())
		}
		writer.CloseWithError(err)
	}()
	return response(http.StatusOK, reader), nil
}

// kindOf returns the kind of a resource's objects.
func kindOf(resource string) string {
	return map[string]string{"pods": "Pod", "nodes": "Node", "configmaps": "ConfigMap"}[resource]
}

func listOf(resource string, version int) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": kindOf(resource) + "List", "items": []any{},
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(version)},
	}
}

func answer(code int, object any) (*http.Response, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return response(code, io.NopCloser(bytes.NewReader(text))), nil
}

func refused(code int, reason metav1.StatusReason) (*http.Response, error) {
	return answer(code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code),
	})
}

func response(code int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

// take returns the counted requests, and resets the counts.
func (c *counted) take() (asked map[string]int, writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, c.asked = c.asked, map[string]int{}
	for what, n := range asked {
		if verb, _, _ := strings.Cut(what, " "); verb != http.MethodGet && verb != "WATCH" {
			writes += n
		}
	}
	return asked, writes
}

// running returns a client of the cluster that runs until stop is called, and its counting server.
func running(t *testing.T) (server *counted, c *Client, stop func()) {
	t.Helper()
	server = &counted{objects: map[string]map[string]any{}, asked: map[string]int{}}
	c, err := New(Options{Config: &rest.Config{Host: "http://api", Transport: server}, Node: "n", Identity: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	return server, c, start(t, func(ctx context.Context) { _ = c.Run(ctx) })
}

// TestRequestsOfIdleAgent counts all requests of an idle agent whose loop publishes the same state every second. 10,000
// such agents must cause at most 170 writes per second.
func TestRequestsOfIdleAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c, stop := running(t)
		spec, status := &v1alpha1.NodeTopologySpec{}, &v1alpha1.NodeTopologyStatus{}
		status.SetCondition("Ready", true, "Measured", "")
		pass := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				c.Publish(spec.DeepCopy(), status.DeepCopy())
			}
			synctest.Wait()
		}
		pass(10 * time.Minute)
		asked, _ := server.take()
		t.Logf("in the first ten minutes: %v", asked)
		if s := c.Snapshot(); !s.Lease.Held || !s.ConfigMapsRead || s.PodsFrom != APIServer {
			t.Errorf("not in order: %+v", s)
		}
		pass(time.Hour)
		asked, writes := server.take()
		var said []string
		for _, what := range slices.Sorted(maps.Keys(asked)) {
			said = append(said, fmt.Sprintf("%s %d", what, asked[what]))
		}
		t.Logf("in an hour: %s", strings.Join(said, ", "))
		if perSecond := float64(writes) * 10_000 / time.Hour.Seconds(); perSecond > 170 || writes == 0 {
			t.Errorf("%d writes an hour: %.0f a second of 10,000 agents", writes, perSecond)
		}
		stop()
	})
}

// TestAwayIsNoticed checks that an outage is noticed through the Lease when watches stay open, although no timer runs
// while the API server answers.
func TestAwayIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c, stop := running(t)
		for range 3 {
			time.Sleep(10 * time.Minute)
			if away := c.Snapshot().Away; away != nil {
				t.Fatal("away before it is:", away)
			}
			server.set(errors.New("unplugged"))
			time.Sleep(lookEvery + grace + 2*assembleEvery)
			if s := c.Snapshot(); s.Away == nil || s.AwaySince.IsZero() {
				t.Fatal("nothing is noticed")
			}
			server.set(nil)
			time.Sleep(2*apiclient.FollowRetryMax + 3*assembleEvery) // the jitter at most doubles a pause
			if away := c.Snapshot().Away; away != nil {
				t.Fatal("still away:", away)
			}
		}
		stop()
	})
}

func (c *counted) set(away error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}
