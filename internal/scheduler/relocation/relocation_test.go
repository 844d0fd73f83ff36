package relocation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/scheduler/repack"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// server is an API server with the pods of a node, and its agent.
type server struct {
	t    *testing.T
	pods map[string]*v1.Pod // by name, all in the namespace ns
	// renewed is how long before the test the agent renewed its Lease last; by default it does every minute.
	renewed time.Duration
	began   time.Time
	ahead   time.Duration // the caller's clock
	// agent answers a move that was asked for so long ago. It is called at every request.
	agent func(p *v1.Pod, m v1alpha1.Move, since time.Duration)
	// fails answers some requests in the server's place.
	fails func(r *http.Request) int
	// loses answers some writes that are done, with whether to try again.
	loses func() (code int, again bool)
	asked map[string]time.Time
	// log has every write to a pod.
	log []string
}

func podAt(name, cpus string) *v1.Pod {
	placement := v1alpha1.Placement{V: 1, Topology: "0123456789abcdef", Containers: map[string]v1alpha1.ContainerPlacement{
		"app": {CPUs: cpus, Mems: "0", Policy: v1alpha1.PlacementExclusive},
	}}
	return &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1",
			Annotations: map[string]string{v1alpha1.AnnotationPlacement: placement.Encode()},
		},
		Spec: v1.PodSpec{NodeName: "n1"},
	}
}

// place is what the agent does at the end of a move.
func place(p *v1.Pod, m v1alpha1.Move) {
	p.Annotations[v1alpha1.AnnotationPlacement] = podAt(p.Name, m.To).Annotations[v1alpha1.AnnotationPlacement]
	delete(p.Annotations, v1alpha1.AnnotationMove)
}

// after is an agent that carries out what was asked for so long ago, also what it withdrawn since.
func after(wait time.Duration) func(*v1.Pod, v1alpha1.Move, time.Duration) {
	return func(p *v1.Pod, m v1alpha1.Move, since time.Duration) {
		if since >= wait {
			place(p, m)
		}
	}
}

// RoundTrip answers a request without a network.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	s.work()
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	name := parts[min(5, len(parts)-1)]
	if strings.HasSuffix(r.URL.Path, "/leases/n1") {
		holder, after := "i", time.Since(s.began).Truncate(time.Minute)
		if s.renewed != 0 {
			after = -s.renewed
		}
		at := metav1.NewMicroTime(s.began.Add(after))
		s.send(w, http.StatusOK, coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			Spec:     coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at},
		})
		return w.Result(), nil
	}
	if s.fails != nil {
		if code := s.fails(r); code != 0 {
			reason := map[int]metav1.StatusReason{409: metav1.StatusReasonConflict, 403: metav1.StatusReasonForbidden}[code]
			s.send(w, code, metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "made up"})
			return w.Result(), nil
		}
	}
	p := s.pods[name]
	switch {
	case p == nil:
		s.send(w, http.StatusNotFound, metav1.Status{Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound})
	case r.Method == http.MethodPatch:
		if !strings.HasSuffix(r.URL.Path, "/status") {
			s.t.Errorf("patched %s", r.URL.Path)
		}
		s.answer(w, p, s.patch(p, r))
	default:
		s.send(w, http.StatusOK, p)
	}
	return w.Result(), nil
}

// answer answers a write, which was done or not.
func (s *server) answer(w *httptest.ResponseRecorder, p *v1.Pod, done bool) {
	if !done {
		s.send(w, http.StatusConflict, metav1.Status{Status: metav1.StatusFailure, Code: 409, Reason: metav1.StatusReasonConflict})
		return
	}
	if s.loses != nil {
		code, again := s.loses()
		if again {
			w.Header().Set("Retry-After", "1")
		}
		if code != 0 {
			s.send(w, code, metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReasonInternalError, Message: "etcdserver: request timed out"})
			return
		}
	}
	s.send(w, http.StatusOK, p)
}

func (s *server) send(w *httptest.ResponseRecorder, code int, answer any) {
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

// patch writes into a pod, unless that changed since it was read.
func (s *server) patch(p *v1.Pod, r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	var change struct {
		Metadata struct {
			UID, ResourceVersion string
			Annotations          map[string]*string
		}
	}
	if err := json.Unmarshal(body, &change); err != nil || change.Metadata.UID != string(p.UID) || change.Metadata.ResourceVersion == "" || len(change.Metadata.Annotations) != 1 {
		s.t.Errorf("patch %s: %v", body, err)
	}
	if change.Metadata.ResourceVersion != p.ResourceVersion {
		return false
	}
	p.ResourceVersion += "1"
	text := change.Metadata.Annotations[v1alpha1.AnnotationMove]
	if text == nil {
		delete(p.Annotations, v1alpha1.AnnotationMove)
		s.log = append(s.log, p.Name+" removed")
		return true
	}
	p.Annotations[v1alpha1.AnnotationMove] = *text
	s.log = append(s.log, p.Name+" "+*text)
	if s.asked[p.Name].IsZero() {
		s.asked[p.Name] = time.Now()
	}
	return true
}

// once answers the first write that is done with an error.
func once(code int, again bool) func() (int, bool) {
	lost := false
	return func() (int, bool) {
		if lost {
			return 0, false
		}
		lost = true
		return code, again
	}
}

func (s *server) work() {
	for _, p := range s.pods {
		m, _ := v1alpha1.DecodeMove(p.Annotations[v1alpha1.AnnotationMove])
		if m.V != 0 && m.Refused == "" && s.agent != nil {
			s.agent(p, m, time.Since(s.asked[p.Name]))
		}
	}
}

func planned(t *testing.T, pod, from, to string) repack.Move {
	t.Helper()
	f, first := cpuset.Parse(from)
	to2, second := cpuset.Parse(to)
	if err := errors.Join(first, second); err != nil {
		t.Fatal(err)
	}
	return repack.Move{Pod: "ns/" + pod, From: f, To: to2}
}

func TestRun(t *testing.T) {
	const asksA = `a {"v":1,"from":"0-1","to":"4-5"}`
	const asksB = `b {"v":1,"from":"2-3","to":"6-7"}`
	const takesA = `a {"v":1,"from":"0-1","to":"4-5","withdrawn":true}`
	conflicts := 2
	tests := []struct {
		name   string
		change func(s *server)
		cancel time.Duration
		err    error
		states string
		text   string
		log    []string
	}{
		{"two moves", func(s *server) { s.agent = after(3 * time.Second) }, 0, nil, "Moved Moved", "", []string{asksA, asksB}},
		{"refused", func(s *server) {
			s.agent = func(p *v1.Pod, m v1alpha1.Move, _ time.Duration) {
				m.Refused = "CPUs 4 belong to another pod"
				p.Annotations[v1alpha1.AnnotationMove] = m.Encode()
			}
		}, 0, ErrRefused, "Refused NotAsked", "CPUs 4 belong to another pod", []string{asksA, "a removed"}},
		{"other CPUs by now", func(s *server) { s.pods["a"] = podAt("a", "8-9") }, 0, ErrRefused, "Refused NotAsked", "the pod has CPUs 8-9, not 0-1", nil},
		{"on another node", func(s *server) { s.pods["a"].Spec.NodeName = "n2" }, 0, ErrRefused, "Refused NotAsked", `the pod is on node "n2"`, nil},
		{"another move stands", func(s *server) { s.pods["a"].Annotations[v1alpha1.AnnotationMove] = `{"v":1,"from":"0-1","to":"8-9"}` }, 0, ErrRefused, "Refused NotAsked", "another move of it is asked for, to CPUs 8-9", nil},
		{"an old answer stands", func(s *server) {
			s.agent = after(0)
			s.pods["a"].Annotations[v1alpha1.AnnotationMove] = `{"v":1,"from":"0-1","to":"8-9","refused":"no"}`
		}, 0, nil, "Moved Moved", "", []string{asksA, asksB}},
		{"no such pod", func(s *server) { delete(s.pods, "a") }, 0, ErrRefused, "NotAsked NotAsked", "", nil},
		{"gone meanwhile", func(s *server) {
			s.agent = func(*v1.Pod, v1alpha1.Move, time.Duration) { delete(s.pods, "a") }
		}, 0, ErrRefused, "Refused NotAsked", "pod ns/a is gone", []string{asksA}},
		{"no agent", func(s *server) { s.renewed = 4 * time.Minute }, 0, ErrUnfinished, "NotAsked NotAsked", "", nil},
		{"the caller's clock is ahead", func(s *server) { s.agent, s.ahead = after(8*time.Second), time.Hour }, 0, nil, "Moved Moved", "", []string{asksA, asksB}},
		{"the caller's clock is behind, and there is no agent", func(s *server) { s.renewed, s.ahead = 4*time.Minute, -time.Hour }, 0, ErrUnfinished, "Asked NotAsked", "may still carry it out", []string{asksA, takesA}},
		{"interrupted while an agent is looked for", func(s *server) { s.renewed = 4 * time.Minute }, 3 * time.Second, context.Canceled, "NotAsked NotAsked", "", nil},
		{"the pod changes all the time", func(s *server) {
			s.agent = after(0)
			s.fails = func(r *http.Request) int {
				if conflicts--; r.Method == http.MethodPatch && conflicts > -4 {
					return http.StatusConflict
				}
				return 0
			}
		}, 0, nil, "Moved Moved", "", []string{asksA, asksB}},
		{"no right", func(s *server) {
			s.fails = func(r *http.Request) int {
				if r.Method == http.MethodPatch {
					return http.StatusForbidden
				}
				return 0
			}
		}, 0, errAny, "NotAsked NotAsked", "", nil},
		{"written, though the answer is an error", func(s *server) {
			s.agent, s.loses = after(8*time.Second), once(http.StatusInternalServerError, false)
		}, 0, ErrUnfinished, "Moved NotAsked", "", []string{asksA, takesA}},
		{"written, though the answer is an error, and withdrawn", func(s *server) {
			s.loses = once(http.StatusInternalServerError, false)
			s.agent = func(p *v1.Pod, m v1alpha1.Move, _ time.Duration) {
				if m.Withdrawn {
					delete(p.Annotations, v1alpha1.AnnotationMove)
				}
			}
		}, 0, ErrUnfinished, "Withdrawn NotAsked", "it was withdrawn: the pod has CPUs 0-1", []string{asksA, takesA}},
		{"written, then tried again in vain", func(s *server) {
			s.agent, s.loses = after(8*time.Second), once(http.StatusInternalServerError, true)
		}, 0, nil, "Moved Moved", "", []string{asksA, asksB}},
		{"written and carried out, then tried again in vain", func(s *server) {
			s.agent, s.loses = after(0), once(http.StatusInternalServerError, true)
		}, 0, nil, "Moved Moved", "", []string{asksA, asksB}},
		{"the API server goes away at the write", func(s *server) {
			gone := false
			s.loses = func() (int, bool) { gone = true; return http.StatusInternalServerError, false }
			s.fails = func(*http.Request) int {
				if gone {
					return http.StatusInternalServerError
				}
				return 0
			}
		}, 0, ErrUnfinished, "Asked NotAsked", "it is not known whether it was asked for", []string{asksA}},
		{"tried again in vain, then the API server goes away", func(s *server) {
			conflict := false
			s.fails = func(r *http.Request) int {
				switch {
				case conflict:
					return http.StatusInternalServerError
				case r.Method == http.MethodPatch:
					conflict = true
					return http.StatusConflict
				}
				return 0
			}
		}, 0, ErrUnfinished, "Asked NotAsked", "it is not known whether it was asked for", nil},
		{"not written, and another asks", func(s *server) {
			s.fails = func(r *http.Request) int {
				if r.Method == http.MethodPatch {
					s.pods["a"].Annotations[v1alpha1.AnnotationMove] = `{"v":1,"from":"0-1","to":"8-9"}`
					s.pods["a"].ResourceVersion += "1"
					return http.StatusInternalServerError
				}
				return 0
			}
		}, 0, ErrUnfinished, "Withdrawn NotAsked", "the pod has CPUs 0-1", nil},
		{"the agent goes away", func(s *server) {
			s.agent = func(*v1.Pod, v1alpha1.Move, time.Duration) { s.renewed = time.Hour }
		}, 0, ErrUnfinished, "Asked NotAsked", "may still carry it out", []string{asksA, takesA}},
		{"no answer in time, then withdrawn", func(s *server) {
			s.agent = func(p *v1.Pod, m v1alpha1.Move, _ time.Duration) {
				if m.Withdrawn {
					delete(p.Annotations, v1alpha1.AnnotationMove)
				}
			}
		}, 0, ErrUnfinished, "Withdrawn NotAsked", "it was withdrawn: the pod has CPUs 0-1", []string{asksA, takesA}},
		{"interrupted, and brought to its end", func(s *server) { s.agent = after(8 * time.Second) }, 3 * time.Second, context.Canceled, "Moved NotAsked", "", []string{asksA, takesA}},
		{"interrupted before it began", func(s *server) {
			s.agent = func(p *v1.Pod, m v1alpha1.Move, _ time.Duration) {
				if m.Withdrawn {
					delete(p.Annotations, v1alpha1.AnnotationMove)
				}
			}
		}, 3 * time.Second, context.Canceled, "Withdrawn NotAsked", "it was withdrawn", []string{asksA, takesA}},
		{"withdrawn by another", func(s *server) {
			s.agent = func(p *v1.Pod, _ v1alpha1.Move, _ time.Duration) { delete(p.Annotations, v1alpha1.AnnotationMove) }
		}, 0, ErrRefused, "Withdrawn NotAsked", "it was withdrawn: the pod has CPUs 0-1", []string{asksA}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{t: t, pods: map[string]*v1.Pod{"a": podAt("a", "0-1"), "b": podAt("b", "2-3")}, asked: map[string]time.Time{}, began: time.Now()}
				test.change(s)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.cancel > 0 {
					time.AfterFunc(test.cancel, cancel)
				}
				steps, err := Run(ctx, Options{
					Config: &rest.Config{Host: "http://api", Transport: s, QPS: -1}, Node: "n1", Timeout: time.Minute,
					Now: func() time.Time { return time.Now().Add(s.ahead) },
				}, []repack.Move{planned(t, "a", "0-1", "4-5"), planned(t, "b", "2-3", "6-7")})
				if unknown := errors.Is(test.err, errAny); unknown && err == nil || !unknown && !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				if got := string(steps[0].State) + " " + string(steps[1].State); got != test.states {
					t.Errorf("steps are %s, want %s", got, test.states)
				}
				if !strings.Contains(steps[0].Text, test.text) || test.text == "" && steps[0].Text != "" {
					t.Errorf("text %q, want %q", steps[0].Text, test.text)
				}
				if got, want := strings.Join(s.log, "\n"), strings.Join(test.log, "\n"); got != want {
					t.Errorf("written:\n%s\nwant:\n%s", got, want)
				}
			})
		})
	}
}

// A write whose answer is an error may be stored later, also after the command ended. What the
// command then says of the move stays true.
func TestLateWrite(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{t: t, pods: map[string]*v1.Pod{"a": podAt("a", "0-1")}, asked: map[string]time.Time{}, began: time.Now()}
			var late *http.Request
			s.fails = func(r *http.Request) int {
				if r.Method != http.MethodPatch || late != nil {
					return 0
				}
				body, _ := io.ReadAll(r.Body)
				late = r.Clone(t.Context())
				late.Body = io.NopCloser(bytes.NewReader(body))
				return http.StatusGatewayTimeout
			}
			s.agent = func(p *v1.Pod, m v1alpha1.Move, _ time.Duration) {
				if m.Withdrawn && !away {
					delete(p.Annotations, v1alpha1.AnnotationMove)
					p.ResourceVersion += "1"
				}
			}
			steps, err := Run(t.Context(), Options{
				Config: &rest.Config{Host: "http://api", Transport: s, QPS: -1}, Node: "n1", Timeout: time.Minute, Now: time.Now,
			}, []repack.Move{planned(t, "a", "0-1", "4-5")})
			want := map[bool]State{false: Withdrawn, true: Asked}[away]
			if !errors.Is(err, ErrUnfinished) || steps[0].State != want {
				t.Errorf("agent away: %t: %+v, %v, want %s", away, steps[0], err, want)
			}
			if late == nil || s.patch(s.pods["a"], late) {
				t.Errorf("agent away: %t: the command said %q, and the move is stored: %v", away, steps[0].State, s.log)
			}
		})
	}
}

// errAny stands for an error of no class.
var errAny = errors.New("any")
