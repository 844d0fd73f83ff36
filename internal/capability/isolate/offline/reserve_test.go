package offline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// asksReserve makes the administrator ask for a reserve, for precedence of class BE, and for a threshold.
func (w *world) asksReserve(percent int64, precedence bool, threshold v1alpha1.ResourceThreshold) {
	w.config = &v1alpha1.AgentConfig{Isolation: v1alpha1.IsolationConfig{PullReservePercent: &percent}}
	admin := workload.Administrator{File: "agent.yaml", Threshold: threshold}
	if precedence {
		admin.QOS.BEClass = new(yields())
	}
	w.inventory.Configure(admin)
}

// decided runs a round in which precedence may be desired, and returns what place makes of it.
func (w *world) decided() string {
	w.run(1, 0.1)
	w.node = w.observed()
	w.work.Decide(&w.node)
	w.assignment.SetOffline(w.node.Offline)
	all := make([]string, 0, 2)
	desired, _ := w.assignment.Desired(nil)
	for _, d := range desired {
		for _, s := range d.Settings() {
			all = append(all, d.Group+" "+string(s.Value)+" "+string(s.Owner))
		}
	}
	return strings.Join(all, "; ")
}

func (w *world) line() string {
	view, err := reader{}.Node(capability.Reported{Alive: true, Node: w.work.Outcome(w.work.opts.Now()).Node})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, line := range view.Lines {
		if strings.HasPrefix(line, "reserve: ") {
			return line
		}
	}
	return ""
}

// Idle offline work leaves a reserve only where the file asks for it, and only while there is offline work without
// cores of its own. The kernel must have cpu.idle, and the reserve ends with the agent.
func TestReserve(t *testing.T) {
	const narrowed, stay = "batch 1-7,9-15 isolate", "reserve: CPUs 0,8 stay free of offline work"
	w := newWorld(t, v1alpha1.ResourceThreshold{})
	expect := func(what, settings, line string) {
		t.Helper()
		if got := w.decided(); got != settings {
			t.Errorf("%s: %q, want %q", what, got, settings)
		}
		if got := w.line(); got != line {
			t.Errorf("%s: %q, want %q", what, got, line)
		}
	}
	none := v1alpha1.ResourceThreshold{}
	w.asksReserve(10, true, none)
	expect("without offline work", "", "")
	w.with("batch")
	expect("a tenth of eight cores", narrowed, stay)
	expect("again", narrowed, stay)
	w.asksReserve(0, true, none)
	expect("off", "", "")
	w.asksReserve(30, true, none)
	expect("more", "batch 3-7,11-15 isolate", "reserve: CPUs 0-2,8-10 stay free of offline work")
	w.asksReserve(10, false, none)
	expect("without precedence", "", "")
	w.asksReserve(10, true, enabled())
	if got := w.decided(); got != "web 0-6,8-14 pool; batch 7,15 isolate" && got != "batch 7,15 isolate; web 0-6,8-14 pool" || w.line() != "" || !w.work.decision.Exists {
		t.Errorf("cores of its own: %q, %q", got, w.line())
	}
	w.asksReserve(10, true, none)
	expect("no cores any more", narrowed, stay)
	w.work.precedences.host = &machine{idle: kernel.Unsupported, identity: kernel.Unsupported}
	w.work.precedences.support, w.work.precedences.probeAt = Support{}, 0
	expect("a kernel without cpu.idle", "", "")
	w.work.precedences.host = mainline()
	w.work.precedences.support, w.work.precedences.probeAt = Support{}, 0
	expect("a kernel with it", narrowed, stay)
	w.work.End()
	if got := w.decided(); got != "" {
		t.Errorf("at the end of the agent: %q", got)
	}
}

// A BPF scheduler that has all threads ends the reserve until it is gone, and status gives the reason.
func TestReserveUnderSchedExt(t *testing.T) {
	const narrowed, stay = "batch 1-7,9-15 isolate", "reserve: CPUs 0,8 stay free of offline work"
	w := newWorld(t, v1alpha1.ResourceThreshold{})
	w.asksReserve(10, true, v1alpha1.ResourceThreshold{})
	w.with("batch")
	for _, c := range []struct{ scheduler, settings, line string }{
		{"", narrowed, stay},
		{"scx_rusty", "", "reserve: none: unsupported: sched_ext scx_rusty has all threads, and the kernel holds none of them to cpu.max or cpu.idle"},
		{"", narrowed, stay},
	} {
		state := map[bool]string{true: "enabled\n", false: "disabled\n"}[c.scheduler != ""]
		for name, text := range map[string]string{"state": state, "switch_all": "1\n", "root/ops": c.scheduler + "\n"} {
			name = w.Path("sys/kernel/sched_ext", name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		w.now += 10 * time.Second // the interval of reading the scheduler
		if got := w.decided(); got != c.settings || w.line() != c.line {
			t.Errorf("under %q: %q, %q", c.scheduler, got, w.line())
		}
	}
}

// The reserve stays while the kubelet resizes a pod. An offline core of the reserve is replaced, and the replacement
// stays when the core returns.
func TestReserveIsStable(t *testing.T) {
	w := newWorld(t, v1alpha1.ResourceThreshold{})
	w.asksReserve(10, true, v1alpha1.ResourceThreshold{})
	w.with("batch")
	w.decided()
	all := w.all
	for _, step := range []struct{ online, want string }{
		{"0-15", "0,8"}, {"0-4,6-12,14-15", "0,8"}, {"0-7,9-15", "1,9"}, {"0-15", "1,9"},
	} {
		w.all = set(t, step.online)
		w.decided()
		if got := w.node.Offline.Reserve; got != set(t, step.want) {
			t.Errorf("CPUs %s: reserve %s, want %s", step.online, got, step.want)
		}
	}
	w.all = all
	p := newWork(t, mainline()).precedences
	c := one("be", "BE", "")
	c.Resizing = true
	if d := p.decide(&capability.Node{Containers: []observed.Workload{c}}, ""); len(d.Settings) > 0 || !p.yields || p.idle {
		t.Errorf("while its pod is resized: %v, yields %v, idle %v", settings(d.Settings), p.yields, p.idle)
	}
}

// Where another program owns CPU sets, or no L3 has two cores, status says why there is no reserve.
func TestReserveLimit(t *testing.T) {
	for want, r := range map[string]reserve{
		"reserve: none: the kubelet sets CPU sets":                        {asked: true, limit: "the kubelet sets CPU sets", cpus: cpuset.Set{}.Add(0)},
		"reserve: none: no L3 has two cores that offline work may run on": {asked: true},
		"reserve: CPUs 3 stay free of offline work":                       {asked: true, cpus: cpuset.Set{}.Add(3)},
	} {
		if got := r.report().line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if none := (&reserve{}).report(); none != nil {
		t.Errorf("not asked for: %+v", none)
	}
}
