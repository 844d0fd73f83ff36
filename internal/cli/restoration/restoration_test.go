package restoration

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// server is an API server with agents. It uses the clock of the test.
type server struct {
	t     *testing.T
	state string // of berth-config
	// says returns the condition's reason of each node at a time since the state was set; the time is negative before
	// that. A node with an empty reason has a NodeTopology without conditions.
	says func(since time.Duration) map[string]string
	// renewed has the nodes whose Lease was renewed last so long before the test. The other Leases are renewed every
	// minute, or as renews says, which also returns the holder. ended has the nodes whose agent gave its Lease up. dies
	// has the nodes whose agent renews its Lease at every look until that time of the test, and then no more.
	renewed map[string]time.Duration
	ended   map[string]bool
	dies    map[string]time.Duration
	renews  func(since time.Duration) (at time.Duration, holder string)
	began   time.Time
	ahead   time.Duration // of the caller's clock
	// silent has the nodes without a NodeTopology. noKind removes the kind NodeTopology, and noMap the ConfigMap with
	// the state.
	silent        map[string]bool
	noKind, noMap bool
	fails         func() bool
	set           time.Time
	patches       int
}

// RoundTrip answers a request without a network.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	if s.fails != nil && s.fails() {
		w.WriteHeader(http.StatusForbidden)
		return w.Result(), nil
	}
	since := time.Duration(-1)
	if !s.set.IsZero() {
		since = time.Since(s.set)
	}
	var answer any
	switch path := r.URL.Path; {
	case s.noMap && strings.HasSuffix(path, "/configmaps/berth-config"), s.noKind && strings.HasSuffix(path, "/nodetopologies"):
		w.WriteHeader(http.StatusNotFound)
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	case strings.HasSuffix(path, "/configmaps/berth-config"):
		if r.Method == http.MethodPatch {
			body, _ := io.ReadAll(r.Body)
			if got := string(body); got != `{"data":{"state":"restore"}}` {
				s.t.Errorf("patched %s", got)
			}
			s.state, s.set = "restore", time.Now()
			s.patches++
		}
		answer = v1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"state": s.state, "other": "x"}}
	case strings.HasSuffix(path, "/nodetopologies"):
		answer = s.topologies(since)
	case path == "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases":
		answer = s.leases(since)
	default:
		s.t.Errorf("%s %s", r.Method, path)
	}
	_ = json.NewEncoder(w).Encode(answer)
	return w.Result(), nil
}

func (s *server) topologies(since time.Duration) v1alpha1.NodeTopologyList {
	list := v1alpha1.NodeTopologyList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "NodeTopologyList"}}
	for name, reason := range s.says(since) {
		if s.silent[name] {
			continue
		}
		t := v1alpha1.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if reason != "" {
			t.Status.SetCondition(v1alpha1.ConditionPinnable, reason == "Working", reason, "m")
		}
		list.Items = append(list.Items, t)
	}
	return list
}

func (s *server) leases(since time.Duration) coordination.LeaseList {
	list := coordination.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}}
	for name := range s.says(since) {
		if name == "unleased" {
			continue
		}
		holder, after := "i", time.Since(s.began).Truncate(time.Minute)
		last, dies := s.dies[name]
		switch ago, fixed := s.renewed[name]; {
		case s.ended[name]:
			holder, after = "", 0
		case dies:
			after = min(time.Since(s.began), last)
		case fixed:
			after = -ago
		case s.renews != nil:
			after, holder = s.renews(time.Since(s.began))
		}
		at := metav1.NewMicroTime(s.began.Add(after))
		list.Items = append(list.Items, coordination.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordination.LeaseSpec{HolderIdentity: &holder, RenewTime: &at},
		})
	}
	holder, now, transitions := "i", metav1.NowMicro(), int32(0) // the Lease of the scheduler's leader election
	list.Items = append(list.Items, coordination.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "berth-scheduler"},
		Spec:       coordination.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseTransitions: &transitions},
	})
	return list
}

// run calls Run against a server, and returns how long it took.
func run(t *testing.T, s *server) (nodes []Node, took time.Duration, err error) {
	t.Helper()
	s.t, s.began = t, time.Now()
	nodes, err = Run(t.Context(), Options{
		Config: &rest.Config{Host: "http://api", Transport: s, QPS: -1}, Timeout: 4 * time.Minute,
		Now: func() time.Time { return time.Now().Add(s.ahead) },
	})
	return nodes, time.Since(s.began), err
}

// TestRun checks that Run waits for every live agent until it reports Restored, and returns the nodes without a live
// agent as absent. An agent that dies while it restores counts as alive until its Lease was quiet for long enough.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const died = 25 * time.Second
		s := &server{
			renewed: map[string]time.Duration{"down": time.Hour}, ended: map[string]bool{"over": true}, dies: map[string]time.Duration{"dying": died},
			says: func(since time.Duration) map[string]string {
				all := map[string]string{
					"down": "Working", "over": "Working", "unleased": "Working", "dying": "Working", "fast": "Working", "slow": "Working",
				}
				if since > 5*time.Second {
					all["fast"], all["slow"], all["dying"] = "Restored", "Restoring", "Restoring"
				}
				if since > 30*time.Second {
					all["slow"] = "Restored"
				}
				return all
			},
		}
		nodes, took, err := run(t, s)
		if err != nil || s.patches != 1 || took < died+apiclient.LeaseQuiet || took > died+apiclient.LeaseQuiet+2*lookEvery {
			t.Errorf("after %v, with %d patches: %v", took, s.patches, err)
		}
		const left = ": berth rollback on the node puts back what it left"
		want := []Node{
			{"down", Absent, "its agent did not renew its Lease for 2m26s" + left},
			{"dying", Absent, "its agent did not renew its Lease for 2m0s" + left},
			{"fast", Restored, "m"},
			{"over", Absent, "its agent ended" + left},
			{"slow", Restored, "m"},
			{"unleased", Absent, "its agent has no Lease" + left},
		}
		if diff := cmp.Diff(want, nodes); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}

// TestLate checks the error if the time ends before the agents have finished, or before they know the state.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{says: func(time.Duration) map[string]string {
			return map[string]string{"a": "Restored", "b": "Working", "c": "", "d": "Restoring"}
		}, state: "restore"}
		nodes, took, err := run(t, s)
		if !errors.Is(err, ErrNotRestored) || !strings.HasSuffix(err.Error(), " after 4m0s on b, c, d") || s.patches != 0 || took != 4*time.Minute {
			t.Errorf("after %v, with %d patches: %v", took, s.patches, err)
		}
		want := []Node{{"a", Restored, "m"}, {"b", Waiting, "Working: m"}, {"c", Waiting, "its agent has published no condition"}, {"d", Waiting, "Restoring: m"}}
		if diff := cmp.Diff(want, nodes); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}

// TestEarlier checks that Run does not take an agent's report of an earlier restoration for an answer to this one.
func TestEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &server{says: func(since time.Duration) map[string]string {
			if reason := "Restored"; since > 12*time.Second || since < 0 && time.Since(began) < 9*time.Second {
				return map[string]string{"a": reason}
			}
			return map[string]string{"a": "Working"}
		}}
		if _, took, err := run(t, s); err != nil || s.patches != 1 || took < 20*time.Second {
			t.Errorf("after %v, with %d patches: %v", took, s.patches, err)
		}
		stuck := &server{says: func(time.Duration) map[string]string { return map[string]string{"a": "Restored"} }}
		if nodes, _, err := run(t, stuck); !errors.Is(err, ErrNotRestored) || stuck.patches != 0 || nodes[0].State != Waiting {
			t.Errorf("an agent that never takes it back: %+v, %v", nodes, err)
		}
	})
}

// TestFailures checks that a request may fail for a while, because new rights take effect later. A lasting failure is
// returned. A cluster without nodes has nothing to restore.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		none := func(time.Duration) map[string]string { return nil }
		brief := &server{says: none, fails: func() bool { return time.Since(began) < 20*time.Second }}
		if nodes, took, err := run(t, brief); err != nil || len(nodes) != 0 || brief.patches != 1 || took != 20*time.Second {
			t.Errorf("after %v: %v, %v", took, nodes, err)
		}
		lasting := &server{says: none, fails: func() bool { return true }}
		if _, took, err := run(t, lasting); err == nil || !strings.Contains(err.Error(), "list nodetopologies") || took > time.Minute {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// TestSilent checks that Run waits for a live agent that has published nothing yet. An agent that ended without
// publishing anything has no node in the result.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{says: func(time.Duration) map[string]string {
			return map[string]string{"a": "Restored", "gone": "", "new": ""}
		}, silent: map[string]bool{"gone": true, "new": true}, ended: map[string]bool{"gone": true}, state: "restore"}
		nodes, _, err := run(t, s)
		if !errors.Is(err, ErrNotRestored) || !strings.HasSuffix(err.Error(), " on new") {
			t.Error(err)
		}
		want := []Node{{"a", Restored, "m"}, {"new", Waiting, "its agent has published no NodeTopology"}}
		if diff := cmp.Diff(want, nodes); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}

// TestAgain checks that an uninstall can be repeated after it removed the ConfigMap, or also the kind: no agent is left
// to ask. If an agent is still alive, it cannot be asked, and the error names it.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := func(time.Duration) map[string]string { return map[string]string{"a": "Restored"} }
		for _, noKind := range []bool{false, true} {
			s := &server{says: ended, ended: map[string]bool{"a": true}, noMap: true, noKind: noKind}
			most := time.Duration(0)
			if noKind { // no agent can report Restored: only the Leases show that none is alive
				most = apiclient.LeaseQuiet + lookEvery
			}
			if nodes, took, err := run(t, s); err != nil || took > most {
				t.Errorf("without the kind %t after %v: %+v, %v", noKind, took, nodes, err)
			}
		}
		lives := &server{says: func(time.Duration) map[string]string { return map[string]string{"a": "Working"} }, noMap: true}
		if _, took, err := run(t, lives); err == nil || !strings.Contains(err.Error(), "berth-config") || !strings.Contains(err.Error(), "agents on a by ") || took > 2*time.Minute {
			t.Errorf("beside an agent after %v: %v", took, err)
		}
	})
}

// TestOtherClocks checks that Run waits for live agents, whatever the caller's clock shows. It also waits while no
// renewal is seen for a while: between two agents of a node, and while the API server is away.
func TestOtherClocks(t *testing.T) {
	const restoredAt = 100 * time.Second
	away := func(since time.Duration) bool { return since > 50*time.Second && since < 75*time.Second }
	for name, s := range map[string]*server{
		"an hour ahead":  {ahead: time.Hour},
		"an hour behind": {ahead: -time.Hour},
		"between two lives": {renews: func(since time.Duration) (time.Duration, string) {
			if since < 70*time.Second {
				return 0, ""
			}
			return since.Truncate(time.Minute), "next"
		}},
		"the API server is away": {renews: func(since time.Duration) (time.Duration, string) {
			if since < 90*time.Second {
				return 0, "i"
			}
			return 90 * time.Second, "i"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.says = func(time.Duration) map[string]string {
					if time.Since(s.began) < restoredAt {
						return map[string]string{"a": "Working", "b": "Restoring"}
					}
					return map[string]string{"a": "Restored", "b": "Restored"}
				}
				s.fails = func() bool { return name == "the API server is away" && away(time.Since(s.began)) }
				nodes, took, err := run(t, s)
				if diff := cmp.Diff([]Node{{"a", Restored, "m"}, {"b", Restored, "m"}}, nodes); err != nil || took < restoredAt || s.patches != 1 || diff != "" {
					t.Errorf("after %v, with %d patches: %v (-want +got):\n%s", took, s.patches, err, diff)
				}
			})
		})
	}
}
