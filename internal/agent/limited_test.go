package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
)

// eventServer is an API server that only accepts events.
func eventServer(t *testing.T) (client *cluster.Client, events <-chan eventsv1.Event) {
	t.Helper()
	taken := make(chan eventsv1.Event, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/events") {
			http.NotFound(w, r)
			return
		}
		var wire runtime.Unknown
		var e eventsv1.Event
		body, err := io.ReadAll(r.Body)
		if err = errors.Join(err, wire.Unmarshal(bytes.TrimPrefix(body, []byte("k8s\x00"))), e.Unmarshal(wire.Raw)); err != nil {
			t.Errorf("event %q: %v", body, err)
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		e.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: eventsv1.SchemeGroupVersion.String()}
		w.WriteHeader(http.StatusCreated)
		if err := json.NewEncoder(w).Encode(&e); err != nil {
			t.Error(err)
		}
		taken <- e
	}))
	client, err := cluster.New(cluster.Options{
		Config: &rest.Config{Host: server.URL}, Node: "n", Identity: "i", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		server.Close()
	})
	return client, taken
}

// A workload that is at its limit again and again has one event, the newest, so that it displaces no other event of the
// view. Its pod has one event for each cause, without names of other pods.
func TestLimitedIsOneEvent(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.makes()
	defer m.closeJournal()
	c := m.controls
	client, taken := eventServer(t)
	c.join(&connections{client: client})
	var pods []*cluster.Pod
	for _, name := range []string{"web-0", "web-1", "early"} {
		p := &cluster.Pod{Key: "shop/" + name, Pod: workload.Pod{Namespace: "shop", Name: name, UID: "uid-" + name}}
		if name != "early" {
			p.Object = cluster.Object{Namespace: "shop", Name: name, UID: "uid-" + name}
		}
		pods = append(pods, p)
	}
	c.inventory.Take(&cluster.Snapshot{Generation: 1, Pods: pods, PodsFrom: cluster.APIServer})
	in := func(pod, container string) *workload.Workload {
		return &workload.Workload{Name: "shop/" + pod + "/" + container, Pod: workload.InPod{UID: "uid-" + pod}}
	}

	say := limited(c)
	c.report("uid-web-0", v1alpha1.EventCPUPinned, "first", false)
	for i := range 300 {
		say(in("web-0", "app"), "GuardFull", fmt.Sprint("busy by ", i))
	}
	say(in("web-0", "app"), "AncestorCap", "the group above")
	say(in("web-0", "beside"), "GuardFull", "busy")
	say(in("web-1", "app"), "GuardFull", "busy")
	say(in("early", "app"), "GuardFull", "busy")                    // the pod has no API object
	say(&workload.Workload{Name: "of a file"}, "GuardFull", "busy") // of no pod
	c.report("uid-web-1", v1alpha1.EventCPUPinFailed, "last", true)

	if all := c.counts.events.All(); len(all) != 7 || all[0].Reason != v1alpha1.EventCPUPinned || all[1].Text != "the group above" {
		t.Errorf("the view has %d events: %+v", len(all), all)
	}
	var got []string
	for e := range taken {
		if e.Reason == v1alpha1.EventCPUPinFailed || t.Failed() {
			break
		}
		if e.Reason != v1alpha1.EventCPUBurstLimited {
			continue
		}
		got = append(got, e.Namespace+" "+string(e.Regarding.UID)+" "+e.Type+" "+e.Note)
	}
	want := []string{
		"shop uid-web-0 Normal shop/web-0/app: the group above", "shop uid-web-0 Normal shop/web-0/beside: busy",
		"shop uid-web-1 Normal shop/web-1/app: busy",
	}
	if len(got) != 4 || !strings.HasPrefix(got[0], "shop uid-web-0 Normal shop/web-0/app: busy by ") || fmt.Sprint(got[1:]) != fmt.Sprint(want) {
		t.Errorf("the cluster has %q", got)
	}
}
