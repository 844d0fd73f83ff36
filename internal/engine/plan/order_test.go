package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

func move(group string, knob cgroup.Knob, from, to Value) Change {
	return Change{Setting: Setting{Target: fileTarget(group, knob), Value: to, Owner: OwnerBurst}, From: from}
}

func TestOrder(t *testing.T) {
	quota := func(group string, from, to Value) Change { return move(group, cgroup.KnobMax, from, to) }
	burst := func(group string, from, to Value) Change { return move(group, cgroup.KnobBurst, from, to) }
	tests := []struct {
		name    string
		ordered []Change
	}{
		{"raise: quota, then burst", []Change{
			quota("a", "100 1000", "300 1000"), burst("a", "100 1000", "300 1000"),
		}},
		{"lower: burst, then quota", []Change{
			burst("a", "300 1000", "100 1000"), quota("a", "300 1000", "100 1000"),
		}},
		{"burst up under a falling quota", []Change{
			quota("a", "300 1000", "200 1000"), burst("a", "0 1000", "200 1000"),
		}},
		{"burst down under a rising quota", []Change{
			burst("a", "100 1000", "0 1000"), quota("a", "100 1000", "300 1000"),
		}},
		{"a limit appears above an old burst", []Change{
			burst("a", "300 1000", "100 1000"), quota("a", "max 1000", "100 1000"),
		}},
		{"the limit goes, the burst grows", []Change{
			quota("a", "100 1000", "max 1000"), burst("a", "100 1000", "900 1000"),
		}},
		{"longer period, lower ratio, more microseconds", []Change{
			quota("a", "100 1000", "200 4000"), burst("a", "100 1000", "200 1000"),
		}},
		{"widening from the root down", []Change{
			quota("a", "100 1000", "400 1000"), quota("a/b", "100 1000", "300 1000"), quota("a/b/c", "100 1000", "300 1000"),
		}},
		{"narrowing from the leaves up", []Change{
			quota("a/b/c", "300 1000", "100 1000"), quota("a/b", "300 1000", "100 1000"), quota("a", "400 1000", "100 1000"),
		}},
		{"widening before narrowing", []Change{
			quota("x/y", "100 1000", "200 1000"), burst("x/z", "0 1000", "50 1000"),
			quota("a", "400 1000", "100 1000"), burst("b", "50 1000", "0 1000"),
		}},
		{"from no limit is narrowing", []Change{
			quota("a/b", "max 1000", "100 1000"), quota("a", "max 1000", "100 1000"),
		}},
		{"a doubled period is no widening", []Change{
			burst("a", "600 2000", "100 1000"), quota("a", "600 2000", "200 1000"),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reversed := slices.Clone(tt.ordered)
			slices.Reverse(reversed)
			if d := cmp.Diff(tt.ordered, Order(kinds(), reversed)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// group is the model's state of one cgroup; a negative quota means no limit.
type group struct{ quota, period, burst unit.Micros }

// host is a model of the kernel's rules: path -> group.
type host map[string]group

// broken returns the rule that the host breaks, "" if the kernel accepts the state.
func (h host) broken() string {
	for name, g := range h {
		if g.quota >= 0 && g.burst > g.quota {
			return fmt.Sprintf("%s: burst %d above quota %d", name, g.burst, g.quota)
		}
		for above, a := range h {
			if !isBelow(name, above) || g.quota < 0 || a.quota < 0 {
				continue
			}
			if g.quota*a.period > a.quota*g.period {
				return fmt.Sprintf("%s: %d/%d above %s: %d/%d", name, g.quota, g.period, above, a.quota, a.period)
			}
		}
	}
	return ""
}

// write makes one change as the kernel would, at the current period if possible.
func (h host) write(t *rapid.T, c Change) {
	g := h[c.Object]
	n, period, err := cgroup.ScaleTo(cgroup.Value(c.Value), g.period).Pair()
	if err != nil {
		t.Fatal(err)
	}
	if c.Knob == string(cgroup.KnobMax) {
		g.quota, g.period = n, period
	} else {
		g.burst = n
	}
	h[c.Object] = g
}

func (h host) observe() map[Target]Value {
	observed := make(map[Target]Value)
	for name, g := range h {
		observed[fileTarget(name, cgroup.KnobMax)] = Value(cgroup.MaxValue(g.quota, g.period))
		observed[fileTarget(name, cgroup.KnobBurst)] = Value(cgroup.BurstValue(g.burst, g.period))
	}
	return observed
}

// drawHost draws a legal host over the given tree.
func drawHost(t *rapid.T, label string, names []string, periods []unit.Micros) host {
	h := make(host)
	for _, name := range names { // parents come before children
		g := group{
			quota:  unit.Micros(rapid.IntRange(-1, 12).Draw(t, label+" quota of "+name)) * 1200,
			period: rapid.SampledFrom(periods).Draw(t, label+" period of "+name),
		}
		if g.quota < 0 {
			g.quota = -1
		}
		for above, a := range h {
			if isBelow(name, above) && a.quota >= 0 && g.quota > a.quota*g.period/a.period {
				g.quota = a.quota * g.period / a.period
			}
		}
		g.burst = unit.Micros(rapid.IntRange(0, 12).Draw(t, label+" burst of "+name)) * 1200
		if g.quota >= 0 {
			g.burst = min(g.burst, g.quota)
		}
		h[name] = g
	}
	return h
}

func drawTree(t *rapid.T) []string {
	names := []string{"a"}
	for i := range rapid.IntRange(0, 6).Draw(t, "groups") {
		parent := rapid.SampledFrom(append([]string{""}, names...)).Draw(t, "parent")
		name := fmt.Sprintf("%c", 'b'+i)
		if parent != "" {
			name = parent + "/" + name
		}
		names = append(names, name)
	}
	return names
}

// drawPlan draws two legal hosts and the shuffled changes from one to the other.
func drawPlan(t *rapid.T, periods []unit.Micros) (start, end host, changes []Change) {
	names := drawTree(t)
	start, end = drawHost(t, "start", names, periods), drawHost(t, "end", names, periods)
	if bad := start.broken() + end.broken(); bad != "" {
		t.Fatalf("the model drew an illegal host: %s", bad)
	}
	var wanted []Setting
	for target, value := range end.observe() {
		wanted = append(wanted, Setting{Target: target, Value: value, Owner: OwnerBurst})
	}
	slices.SortFunc(wanted, func(a, b Setting) int { return strings.Compare(a.String(), b.String()) })
	changes = rapid.Permutation(Diff(kinds(), wanted, start.observe())).Draw(t, "changes")
	return start, end, changes
}

func TestOrderKeepsEveryStepLegal(t *testing.T) {
	for name, periods := range map[string][]unit.Micros{
		"one period":      {10_000},
		"several periods": {10_000, 15_000, 35_000},
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			now, _, changes := drawPlan(t, periods)
			ordered := Order(kinds(), changes)
			if len(ordered) != len(changes) {
				t.Fatalf("%d changes of %d came back", len(ordered), len(changes))
			}
			for i, c := range ordered {
				now.write(t, c)
				if bad := now.broken(); bad != "" {
					t.Fatalf("after change %d of %v: %s", i, ordered, bad)
				}
			}
		}))
	}
}

func TestOrderReachesTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, end, changes := drawPlan(t, []unit.Micros{10_000})
		for _, c := range Order(kinds(), changes) {
			now.write(t, c)
		}
		if d := cmp.Diff(end.observe(), now.observe()); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

func TestOrderIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, _, changes := drawPlan(t, []unit.Micros{10_000, 15_000})
		again := rapid.Permutation(changes).Draw(t, "again")
		if d := cmp.Diff(Order(kinds(), changes), Order(kinds(), again)); d != "" {
			t.Fatalf("the order depends on the argument's:\n%s", d)
		}
	})
}

// TestNeeds checks that omitting a failed change, and the changes that need it, leaves a legal state.
func TestNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, _, changes := drawPlan(t, []unit.Micros{10_000, 15_000})
		var left []Change
		for _, c := range Order(kinds(), changes) {
			needs := slices.ContainsFunc(left, func(l Change) bool { return Needs(kinds(), c, l) })
			if needs || rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
				left = append(left, c)
				continue
			}
			now.write(t, c)
			if bad := now.broken(); bad != "" {
				t.Fatalf("after %s without %v: %s", c, left, bad)
			}
		}
	})
}

// TestNeedsNotMore checks that a failed change does not delay unrelated changes.
func TestNeedsNotMore(t *testing.T) {
	a := move("a", cgroup.KnobMax, "100 1000", "300 1000")
	for _, c := range []Change{
		move("b", cgroup.KnobMax, "100 1000", "300 1000"),
		move("ab", cgroup.KnobMax, "100 1000", "300 1000"),
		move("a/b", cgroup.KnobMax, "50 1000", "100 1000"),
		move("a", cgroup.KnobBurst, "0 1000", "100 1000"),
		move("b", cgroup.KnobBurst, "0 1000", "300 1000"),
	} {
		if Needs(kinds(), c, a) {
			t.Errorf("%s is said to need %s", c, a)
		}
	}
}
