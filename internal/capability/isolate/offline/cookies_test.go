package offline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/capability/isolate/cookies"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/observed"
)

// ThreadIDs implements Host. Every group is missing.
func (*machine) ThreadIDs(g *cgroup.Group) ([]int, int, error) {
	return nil, 0, fmt.Errorf("%w: %s", cgroup.ErrNoGroup, g.Path())
}

// coreSched makes the administrator ask for this cpuPolicy for offline work.
func (w *world) coreSched(policy string) {
	w.inventory.Configure(workload.Administrator{File: "agent.yaml", QOS: v1alpha1.ResourceQOS{
		Policies: &v1alpha1.QOSPolicies{CPUPolicy: &policy},
		BEClass:  &v1alpha1.ClassQOS{CPUQOS: &v1alpha1.ClassCPUQOS{Enable: new(true), GroupIdentity: new(int64(0))}}, // no precedence
	}})
}

// Cookies are not reported where they are not requested. Where they are refused, the status gives the reason: here
// Group Identity, independent of the kernel that runs the test.
func TestCookieRefused(t *testing.T) {
	w := newWorld(t, v1alpha1.ResourceThreshold{})
	w.work.precedences.host = &machine{idle: kernel.Supported, identity: kernel.Supported}
	w.with("batch")
	w.coreSched(v1alpha1.CPUPolicyGroupIdentity)
	w.rounds(1, 0.1)
	if w.work.cookies.Status() != nil || w.work.cookies.Of("batch") != "" || len(w.events) > 0 {
		t.Errorf("not asked for: %+v, events %q", w.work.cookies.Status(), w.events)
	}
	w.coreSched(v1alpha1.CPUPolicyCoreSched)
	w.rounds(1, 0.1)
	w.rounds(1, 0.1)
	got := w.work.cookies.Status()
	reason, _ := isolate.Sharing{Identity: true, Missing: w.work.sharing(&w.node).Missing}.Refused()
	if got == nil || got.Cookie != "" || got.Reason != reason || !strings.Contains(got.Policy, "policies.cpuPolicy of agent.yaml") {
		t.Errorf("refused: %+v, want %q", got, reason)
	}
	if len(w.events) != 1 || !strings.Contains(w.events[0], "core scheduling: "+reason) {
		t.Errorf("events %q", w.events)
	}
	w.with()
	if w.rounds(1, 0.1); w.work.cookies.Status() != nil {
		t.Errorf("without offline work: %+v", w.work.cookies.Status())
	}
}

// Status and explain report cookies in these texts.
func TestCookieReader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		shared cookies.Status
		want   string
	}{
		{cookies.Status{Reason: "no SMT", Policy: "agent.yaml"}, "core scheduling as without Berth: no SMT; asked for by agent.yaml"},
		{
			cookies.Status{Cookie: "1f", Groups: 3, Threads: 48, Gap: 0.976},
			"core scheduling: 48 threads of 3 offline groups share a cookie, 0 have none yet; a new one had none for at most 0.98 s",
		},
	} {
		view, err := reader{}.Node(capability.Reported{Alive: true, Node: capability.Sections{keyNode: Node{CoreScheduling: &test.shared}}})
		if err != nil || len(view.Lines) != 2 || view.Lines[1] != test.want {
			t.Errorf("%v, %q, want %q", err, view.Lines, test.want)
		}
	}
	w := Workload{Precedence: &Precedence{Source: "agent.yaml"}, CoreScheduling: "core scheduling: why"}
	view, err := reader{}.Workload(capability.Reported{Row: capability.Sections{name: w}})
	if diff := cmp.Diff([]string{"precedence as without Berth, by agent.yaml", "core scheduling: why"}, view.Lines); err != nil || diff != "" {
		t.Errorf("%v, lines (-want +got):\n%s", err, diff)
	}
}

// Offline work that has no cookie, because cpuQOS is off, runs beside online threads. The agent must name it.
func TestWhoHasNoCookie(t *testing.T) {
	t.Parallel()
	work := []observed.Pod{{Name: "ns/a", Group: "a", Here: true}, {Name: "ns/b", Group: "b"}, {Name: "ns/c", Here: true}}
	for groups, want := range map[string]string{"": "ns/a", "a": "ns/c", "b": "ns/a"} {
		if got := uncovered(work, []string{groups}[:min(1, len(groups))]); got != want {
			t.Errorf("%q: %q, want %q", groups, got, want)
		}
	}
	if got := uncovered(work[:2], []string{"a"}); got != "" {
		t.Errorf("what is not here: %q", got)
	}
}

// coreExpeller has an effect only with the policy. Each group of offline work that must be kept apart is listed once.
func TestWhoSharesACookie(t *testing.T) {
	w := newWork(t, mainline())
	second := one("a", "BE", `{"coreExpeller": true}`)
	second.Container, second.Name = "side", "ns/a/side"
	n := &capability.Node{Containers: []observed.Workload{
		one("a", "BE", `{"coreExpeller": true}`), second, one("off", "BE", `{"enable": false}`), one("web", "LS", `{"enable": true, "groupIdentity": 0}`),
	}}
	w.precedences.decide(n, v1alpha1.CPUPolicyCoreSched)
	if diff := cmp.Diff([]string{"kubepods/besteffort/poda"}, w.precedences.offline); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if row := w.precedences.rows["ns/a/main"]; row.Undone != "" {
		t.Errorf("with the policy: %+v", row)
	}
	w.precedences.decide(n, "")
	if row := w.precedences.rows["ns/a/main"]; row.Undone != "coreExpeller: it needs cpuPolicy coreSched" {
		t.Errorf("without the policy: %+v", row)
	}
}
