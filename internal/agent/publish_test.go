package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/containers"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/statedir"
)

// shelf is an API server that stores Leases and NodeTopologies as they are written, and answers nothing else.
type shelf struct {
	mu    sync.Mutex
	has   map[string][]byte
	kinds map[string]string // their content types
}

// RoundTrip implements http.RoundTripper.
func (s *shelf) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "/nodetopologies") {
		<-r.Context().Done() // no error: client-go's handler sleeps after errors, by the clock outside the bubble
		return nil, r.Context().Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.TrimSuffix(r.URL.Path, "/status")
	if r.Method == http.MethodPost {
		name = path.Join(name, "n")
	}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.has[name], s.kinds[name] = body, r.Header.Get("Content-Type")
	}
	code, body, kind := http.StatusOK, s.has[name], s.kinds[name]
	if body == nil {
		code, kind = http.StatusNotFound, "application/json"
		body = []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// topologyPath is the path of the node's NodeTopology.
const topologyPath = "/apis/berth.dev/v1alpha1/nodetopologies/n"

// published returns the NodeTopology, nil if there is none.
func (s *shelf) published(t *testing.T) *v1alpha1.NodeTopology {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	body := s.has[topologyPath]
	if body == nil {
		return nil
	}
	var object v1alpha1.NodeTopology
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatal(err)
	}
	return &object
}

// put stores a NodeTopology.
func (s *shelf) put(t *testing.T, object *v1alpha1.NodeTopology) {
	t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has[topologyPath], s.kinds[topologyPath] = body, "application/json"
}

// joinsAt makes the machine a node of the cluster of this API server until leave is called.
func (m *machine) joinsAt(server http.RoundTripper) (leave func()) {
	m.t.Helper()
	client, err := cluster.New(cluster.Options{Config: &rest.Config{Host: "http://api", Transport: server}, Node: "n", Identity: "i"})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = client.Run(ctx)
	}()
	c := m.controls
	c.mu.Lock()
	defer c.mu.Unlock()
	c.join(&connections{client: client, memory: statedir.NewMemory(c.opts.Config.StateDir, c.opts.BootID), runtime: new(containers.Runtime)})
	return func() {
		cancel()
		<-done
	}
}

// An agent that cannot read its machine publishes no machine. If an earlier agent did, the node must not stay pinnable:
// the conditions of the NodeTopology say why, and nothing else of it changes.
func TestPublishWithoutTopology(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		if err := os.Remove(m.path("sys/devices/system/cpu/online")); err != nil {
			t.Fatal(err)
		}
		m.makes()
		server := &shelf{has: map[string][]byte{}, kinds: map[string]string{}}
		defer m.joinsAt(server)()
		if err := kubeletSays(m.controls, kubelet.Reading{Whole: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.controls.assignment.Handle(nri.Event{Kind: nri.Synchronize}, true); err != nil {
			t.Fatal(err)
		}
		m.begin()
		const pause = 3 * time.Minute // the agent looks once a minute
		time.Sleep(pause)
		if got := server.published(t); got != nil {
			t.Errorf("without a machine there is a NodeTopology: %+v", got)
		}

		old := &v1alpha1.NodeTopology{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "NodeTopology"},
			ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Spec: v1alpha1.NodeTopologySpec{Online: "0-7", Hash: "earlier"},
			Status: v1alpha1.NodeTopologyStatus{FreeCPUs: 5, AgentVersion: "earlier"},
		}
		old.Status.SetCondition(v1alpha1.ConditionReady, true, "Working", "")
		old.Status.SetCondition(v1alpha1.ConditionSharedPoolOvercommitted, true, "TooMuchRequested", "earlier")
		old.Status.SetCondition(v1alpha1.ConditionPinnable, true, "Working", "")
		server.put(t, old)
		time.Sleep(pause)
		now := server.published(t)
		said := map[string]string{}
		for _, one := range now.Status.Conditions {
			said[one.Type] = string(one.Status) + " " + one.Reason
			if one.Status == metav1.ConditionFalse && !strings.Contains(one.Message, "cpu/online") || one.Type == v1alpha1.ConditionPinnable && one.LastTransitionTime.IsZero() {
				t.Errorf("condition %+v", one)
			}
		}
		if want := map[string]string{"Ready": "False Topology", "Pinnable": "False NoTopology", "SharedPoolOvercommitted": "True TooMuchRequested"}; !maps.Equal(said, want) {
			t.Errorf("conditions %v, want %v", said, want)
		}
		if now.Spec.Hash != "earlier" || now.Spec.Online != "0-7" || now.Status.FreeCPUs != 5 || now.Status.AgentVersion != "earlier" || now.UID != "u" {
			t.Errorf("more than conditions changed: %+v", now)
		}

		m.write("sys/devices/system/cpu/online", "0-3\n")
		time.Sleep(pause)
		now = server.published(t)
		ready := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady)
		if !meta.IsStatusConditionTrue(now.Status.Conditions, v1alpha1.ConditionReady) || now.Spec.Online != "0-3" || now.Status.AgentVersion != "test" {
			t.Errorf("once the machine is read: %+v, CPUs %s of agent %s", ready, now.Spec.Online, now.Status.AgentVersion)
		}
		if types := conditionTypes(now); len(types) != len(slices.Compact(types)) {
			t.Errorf("conditions %v", types)
		}
	})
}

// conditionTypes returns the types of the conditions, sorted.
func conditionTypes(of *v1alpha1.NodeTopology) []string {
	var all []string
	for _, one := range of.Status.Conditions {
		all = append(all, one.Type)
	}
	slices.Sort(all)
	return all
}
