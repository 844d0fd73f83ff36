package assignment_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// capped returns the agent's own rules.
func capped(t *testing.T, rules string) workload.Administrator {
	t.Helper()
	config, problems := v1alpha1.DecodeAgentConfig([]byte(`{"cluster": {"enabled": true, "pinning": ` + rules + `}}`))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return workload.AdministratorOf("agent.yaml", config)
}

// boundAt returns a pod that asks for two CPUs and was bound at this many seconds after the epoch.
func boundAt(uid string, seconds int64) *cluster.Pod {
	p := pinnedPod(uid, "")
	p.Bound = time.Unix(seconds, 0)
	return p
}

// A later rule takes no CPUs from a pod that has some, even while none of its containers runs. These CPUs have
// precedence over the claim of a pod that was bound earlier.
func TestRuleThatComesLater(t *testing.T) {
	for _, rules := range []string{`{"maxPinnedCPUsPerNamespace": 1}`, `{"maxPinnedCPUsPerNamespace": 2}`, `{"namespaces": ["other"]}`} {
		t.Run(rules, func(t *testing.T) {
			n := open(t)
			has, earlier := boundAt("has", 2), boundAt("earlier", 1)
			n.Take(snapshot(has))
			first := start(t, n, has).Reply.Adjust.CPUs
			n.Configure(capped(t, rules))
			for range 2 {
				handle(t, n, event(nri.Stop, has))
				handle(t, n, event(nri.Remove, has))
				if a := start(t, n, has); first.Size() != 2 || a.Reply.Adjust.CPUs != first {
					t.Errorf("its next container gets %q, the first had %q", a.Reply.Adjust.CPUs, first)
				}
				n.Take(snapshot(earlier, has))
				if a := start(t, n, earlier); a.Reply.Adjust.CPUs.Size() != 6 {
					t.Errorf("the other one gets %q", a.Reply.Adjust.CPUs)
				}
			}
			handle(t, n, nri.Event{Kind: nri.StopPod, Pod: sandbox(has)})
			n.Take(snapshot(boundAt("next", 3)))
			if a := start(t, n, boundAt("next", 3)); (a.Reply.Adjust.CPUs.Size() == 2) != strings.Contains(rules, ": 2") {
				t.Errorf("the next one gets %q", a.Reply.Adjust.CPUs)
			}
		})
	}
}

// After a restart, the agent knows from the journal and the running containers which pods have CPUs.
func TestRuleThatComesWithAnotherAgent(t *testing.T) {
	h := host{map[string]cpuset.Set{"kubepods/podhas/c": set("6-7")}}
	n := newNode(h, capped(t, `{"maxPinnedCPUsPerNamespace": 2}`))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
	has, earlier := boundAt("has", 2), boundAt("earlier", 1)
	n.Take(snapshot(earlier, has))
	running := event(nri.PostStart, has).Container
	running.State = nri.Running
	handle(t, n, nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{sandbox(has)}, Containers: []nri.Container{running}})
	if a := start(t, n, earlier); a.Reply.Adjust.CPUs != set("0-5") {
		t.Errorf("the other one gets %q", a.Reply.Adjust.CPUs)
	}
	handle(t, n, event(nri.Remove, has))
	if a := start(t, n, has); a.Reply.Adjust.CPUs != set("6-7") {
		t.Errorf("its next container gets %q", a.Reply.Adjust.CPUs)
	}
}

// A resize does not grow a pod beyond the cap.
func TestResizeObeysCaps(t *testing.T) {
	n := open(t)
	n.Configure(capped(t, `{"maxPinnedCPUsPerNamespace": 3}`))
	p := boundAt("p", 1)
	n.Take(snapshot(p))
	first := start(t, n, p).Reply.Adjust.CPUs
	larger := boundAt("p", 1)
	larger.Scheduled, larger.Containers[0].CPURequest, larger.Containers[0].CPULimit = 4000, 4000, 4000
	n.Take(snapshot(larger))
	handle(t, n, event(nri.Update, p))
	for _, d := range desired(n) {
		if d.PodUID == "p" && d.Pinned && d.CPUs != first {
			t.Errorf("it has %s, had %s", d.CPUs, first)
		}
	}
}

func desired(n *node) []place.Desired {
	all, _ := n.Desired(nil)
	return all
}

// A pod that only the runtime has reported obeys the rules as far as they can be applied. Its requests are unknown.
func TestRulesForEarlyPods(t *testing.T) {
	for name, c := range map[string]struct {
		rules  string
		source string // the kubelet's config.source annotation
		pinned bool
	}{
		"no rules":          {`{}`, "api", true},
		"within the cap":    {`{"maxPinnedCPUsPerNamespace": 4}`, "api", true},
		"above the cap":     {`{"maxPinnedCPUsPerNamespace": 3}`, "api", false},
		"another namespace": {`{"namespaces": ["other"]}`, "api", false},
		"whole requests":    {`{"requestBelowLimit": "deny"}`, "api", true},
		"static":            {`{"maxPinnedCPUsPerNamespace": 3}`, "file", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := open(t)
			n.Configure(capped(t, c.rules))
			first := pinnedPod("first", "6-7")
			n.Take(snapshot(first))
			start(t, n, first)
			e := event(nri.Create, pinnedPod("early", "2-3"))
			e.Pod.Annotations = maps.Clone(e.Pod.Annotations)
			e.Pod.Annotations["kubernetes.io/config.source"] = c.source
			a, err := n.Handle(e, true)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Reply.Adjust.CPUs; (got == set("2-3")) != c.pinned {
				t.Errorf("it gets %q", got)
			}
		})
	}
}

// The agent applies the caps to pods that bypass the scheduler: their specs name the node, and they have no placement.
func TestAgentAppliesCaps(t *testing.T) {
	for name, test := range map[string]struct {
		rules string
		want  map[string]string // by pod: why it has no exclusive CPUs, "" if it has
	}{
		"no rules":          {`{}`, map[string]string{"a": "", "b": "", "below": ""}},
		"a cap":             {`{"maxPinnedCPUsPerNamespace": 2}`, map[string]string{"a": "", "b": "namespace ns has 2 of the 2 pinned CPUs"}},
		"a cap below all":   {`{"maxPinnedCPUsPerNamespace": 1}`, map[string]string{"a": "more pinned CPUs than the 1", "static": ""}},
		"another namespace": {`{"namespaces": ["other"]}`, map[string]string{"a": "namespace ns is not allowed", "static": ""}},
		"whole requests":    {`{"requestBelowLimit": "deny"}`, map[string]string{"a": "", "below": "must request as many CPUs"}},
	} {
		t.Run(name, func(t *testing.T) {
			config, problems := v1alpha1.DecodeAgentConfig([]byte(`{"cluster": {"enabled": true, "pinning": ` + test.rules + `}}`))
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			n := newNode(host{map[string]cpuset.Set{}}, workload.AdministratorOf("agent.yaml", config))
			n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef"})
			handle(t, n, nri.Event{Kind: nri.Synchronize})
			s := snapshot()
			for i, uid := range []string{"a", "b", "below", "static"} {
				if _, there := test.want[uid]; !there {
					continue
				}
				p := pinnedPod(uid, "")
				p.Bound, p.Static = time.Unix(int64(i), 0), uid == "static"
				if uid == "below" {
					p.Scheduled, p.Containers[0].CPURequest = 100, 100
				}
				s.Pods = append(s.Pods, p)
			}
			n.Take(s)
			got := map[string]string{}
			for _, p := range s.Pods {
				if a := start(t, n, p); a.Reply.Adjust.CPUs.IsEmpty() {
					got[p.UID] = "nothing was said"
				}
			}
			for _, event := range n.Events() {
				if event.Reason == v1alpha1.EventPlacementRefused {
					got[event.PodUID] = event.Text
				}
			}
			for uid, want := range test.want {
				if (got[uid] == "") != (want == "") || !strings.Contains(got[uid], want) {
					t.Errorf("%s: %q, want %q", uid, got[uid], want)
				}
			}
		})
	}
}

// A pod that requires its CPUs does not start without them, even where a rule refuses them. It starts once the rule
// permits it.
func TestRefusedPodThatRequiresItsCPUs(t *testing.T) {
	n := open(t)
	n.Configure(capped(t, `{"maxPinnedCPUsPerNamespace": 2}`))
	has, waits := boundAt("has", 1), boundAt("waits", 2)
	waits.Annotations[v1alpha1.AnnotationResourceSpec] = `{"requiredCPUBindPolicy":"FullPCPUs"}`
	n.Take(snapshot(has, waits))
	start(t, n, has)
	handle(t, n, nri.Event{Kind: nri.RunPod, Pod: sandbox(waits)})
	if _, err := n.Handle(event(nri.Create, waits), true); !errors.Is(err, place.ErrRefused) {
		t.Errorf("it starts: %v", err)
	}
	handle(t, n, nri.Event{Kind: nri.StopPod, Pod: sandbox(has)})
	n.Take(snapshot(waits))
	if a := handle(t, n, event(nri.Create, waits)); a.Reply.Adjust.CPUs.Size() != 2 {
		t.Errorf("it gets %q", a.Reply.Adjust.CPUs)
	}
	never := boundAt("never", 3)
	never.Annotations[v1alpha1.AnnotationResourceSpec] = waits.Annotations[v1alpha1.AnnotationResourceSpec]
	never.RuntimeClass = "kata"
	n.Configure(capped(t, `{}`))
	n.Take(snapshot(waits, never))
	start(t, n, never) // a pod that Berth can never pin does not wait
}
