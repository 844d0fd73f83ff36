package apply_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/test/crash"
)

// Variables that a crash test passes to its child: the top group and what to apply.
const (
	crashGroup = "BERTH_TEST_CRASH_GROUP"
	crashWork  = "BERTH_TEST_CRASH_WORK"
)

// quotas returns successive settings: raise everything, raise the burst under a falling quota, remove a limit, and
// lower everything below its start.
func quotas(top string) [][]plan.Setting {
	a, b := top+"/a", top+"/b"
	return [][]plan.Setting{
		{maxTo(top, 4*period), maxTo(a, 3*period), burstTo(a, 3*period), maxTo(b, 3*period)},
		{maxTo(a, 2*period), burstTo(a, 2*period), burstTo(b, period)},
		{maxTo(top, -1), maxTo(a, -1)},
		{maxTo(top, period), maxTo(a, period/2), burstTo(a, period/4), maxTo(b, period/2), burstTo(b, 0)},
	}
}

// settingsOf returns the settings for the text of a child's work.
func settingsOf(t *testing.T, host *cgroup.Host, top, work string) [][]plan.Setting {
	t.Helper()
	kind, rest, _ := strings.Cut(work, " ")
	switch kind {
	case "quotas":
		return quotas(top)
	case "lists":
		words := strings.Fields(rest)
		c := cpus{plan.Value(words[0]), plan.Value(words[1]), plan.Value(words[2])}
		return spread(top, c, plan.Value(words[3]))
	case "precedence":
		low, middle, normal := weights(t, host)
		return precedences(top, low, middle, normal)
	case "isolate":
		_, middle, _ := weights(t, host)
		return isolation(coresOf(t, host, top), top, middle)
	case "isolate-again":
		_, middle, _ := weights(t, host)
		return isolation(coresOf(t, host, top), top, middle)[:1]
	}
	t.Fatalf("no such work: %q", work)
	return nil
}

// TestCrashChild is the child process of the crash tests. Without its variables it does nothing.
func TestCrashChild(t *testing.T) {
	child, ok := crash.Asked(t)
	if !ok {
		return
	}
	host, work := openHost(t), os.Getenv(crashWork)
	watch := func() {}
	if strings.HasPrefix(work, "isolate") {
		watch = sides(t, host, os.Getenv(crashGroup))
	}
	a := apply.New(cgroupfile.Kinds(host, nil), openJournal(t, child.Dir), apply.Options{Step: func(step apply.Step, target plan.Target) {
		watch()
		child.Step(step, target)
	}})
	for _, settings := range settingsOf(t, host, os.Getenv(crashGroup), work) {
		for _, r := range a.Apply(changes(t, host, settings...)) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	watch = func() {} // offline work is over
	crash.Undone(t, "by the child", a.Restore(nil, false))
}

// The process is killed between every two steps of apply and restore. Each time a rollback in another process restores
// every byte.
func TestCrashBetweenSteps(t *testing.T) {
	l := newLive(t)
	l.crashes("quotas", 60, l.files)
}

// crashes kills a child at each of its steps and requires that there are at least least steps. A rollback in another
// process then restores what look returns. After every second death, another child first does the work named restarted,
// as a restarted agent does, and restores everything itself.
func (l *live) crashes(work string, least int, look func() map[string]string, restarted ...string) {
	l.t.Helper()
	before, dir := look(), l.t.TempDir()
	group := crashGroup + "=" + l.top.Path()
	crash.Steps(l.t, least, func(step int) bool {
		killed := crash.At(l.t, dir, step, group, crashWork+"="+work)
		for _, more := range restarted {
			if killed && step%2 == 0 && crash.At(l.t, dir, 0, group, crashWork+"="+more) {
				l.t.Fatalf("the child after step %d was killed", step)
			}
		}
		j, err := journal.Open(dir, boot, cgroupfile.Values())
		must(l.t, err)
		if !killed && len(j.Entries()) > 0 {
			l.t.Errorf("entries left by a whole run: %v", j.Entries())
		}
		when := fmt.Sprintf("killed at step %d", step)
		crash.Undone(l.t, when, apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{}).Restore(nil, false))
		must(l.t, j.Close())
		if d := cmp.Diff(before, look()); d != "" {
			l.t.Fatalf("%s (-before +after rollback):\n%s", when, d)
		}
		s, err := journal.Load(dir, cgroupfile.Values())
		must(l.t, err)
		if len(s.Entries) != 0 || s.Damage != nil {
			l.t.Fatalf("%s: journal %v, damage %v", when, s.Entries, s.Damage)
		}
		return killed
	})
}

// A crash between Intend and the write over a foreign value leaves that value to the other writer.
func TestCrashBeforeReassertion(t *testing.T) {
	l := newLive(t)
	dir := t.TempDir()
	j := openJournal(t, dir)
	target := cgroupfile.Target(l.a.Path(), cgroup.KnobMax)
	l.applied(apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{}), maxTo(l.a.Path(), 2*period))
	must(t, l.a.SetMax(77_000, period))
	must(t, j.Intend(plan.Change{Setting: maxTo(l.a.Path(), 2*period), From: value(t, l.host, target)}))
	must(t, j.Close())
	restored(t, apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, dir), apply.Options{}), "drifted")
	if v := value(t, l.host, target); v != "77000 100000" {
		t.Errorf("the other writer's value became %s", v)
	}
}
