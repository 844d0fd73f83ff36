package top

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

var update = flag.Bool("update", false, "write the golden files")

func set(t testing.TB, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// host returns a view of a recorded machine at a given moment; counters increase.
func host(t testing.TB, machine string, moment uint64) *view.View {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/machines/" + machine + ".golden.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := topology.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	var o capability.Outcome
	o.Shown = capability.Shown{
		Machine: m, Pools: []capability.Pool{{Name: "exclusive", CPUs: set(t, "0-3")}, {Name: "shared", CPUs: m.Online.Difference(set(t, "0-3"))}},
		Holdings: []capability.Holding{
			{Workload: "shop/web-0/app", CPUs: set(t, "0-1"), Mems: set(t, "0"), Exclusive: true, Why: "it asked for 2 CPUs"},
			{Workload: "shop/db-0/a-container-with-a-long-name", CPUs: set(t, "2-3"), Exclusive: true},
			{Workload: "shop/late-0/app", Refused: "1 node had fewer than 2 free cores"},
			{Workload: "evil\x1b[2J/web/\u202eapp", CPUs: set(t, "4-5")},
		},
		Quotas: []capability.Quota{
			{Workload: "batch", Limit: 2, Now: 3.5, Credit: 30, Capacity: 120, Periods: 100 + 10*moment, Throttled: 10 + 5*moment, Above: 10},
			{Workload: "open", Limit: 1, Now: -1, Credit: 5, Capacity: -1, Periods: 100, Throttled: 1},
		},
	}
	o.Rows = []capability.Row{{Workload: capability.Workload{Name: "batch", State: "Active"}}}
	f := view.Facts{Version: "1.2", At: time.Date(2026, 11, 23, 12, 0, int(moment), 0, time.UTC), LoadSeconds: 1} //nolint:gosec // it is small
	if f.Report, err = view.Join([]string{"workloads/w.yaml: wrong"}, []view.Said{{Name: "place", Outcome: o}}); err != nil {
		t.Fatal(err)
	}
	for cpu := range 4 {
		f.Loads = append(f.Loads, float64(cpu)/3)
	}
	f.Throttling = map[string]*view.Throttling{
		"shop/late-0/app":           {Limit: 0.5, Used: 0.2, Seconds: 10, Periods: 80, Throttled: 32, BurstHelps: true},
		"evil\x1b[2J/web/\u202eapp": {Limit: 2, Used: 2, Seconds: 10, Periods: 100, Throttled: 9},
	}
	f.Changes = []view.Change{{Object: "web", Knob: "cpuset.cpus", Original: "0-7", Written: "0-1", Owner: "place", Workload: "shop/web-0/app", Why: "it is pinned"}}
	f.Events = []view.Event{
		{At: f.At, About: "shop/web-0", Reason: "CPUPinned", Text: "app has the CPUs 0-1"},
		{At: f.At, Reason: "HostDrift", Text: "the host differs", Warning: true},
	}
	return view.Of(f)
}

// terminal returns a model of a terminal of some size after its second view.
func terminal(t testing.TB, machine string, width, height int) *model {
	t.Helper()
	m := &model{
		screen:  screen{now: host(t, machine, 0)},
		explain: func(_ *view.View, name string) []string { return []string{"it is explained"} },
		report: func(v *view.View) []string {
			return []string{"bunks: all made", "the bunks of " + v.At.Format("15:04:05") + "\x1b[2J"}
		},
		look: func() tea.Msg { return nil },
	}
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.Update(looked{view: host(t, machine, 1)})
	return m
}

// press sends keys: names of keys, or text.
func (m *model) press(keys ...string) (last tea.Cmd) { return press(m, keys...) }

func press(m tea.Model, keys ...string) (last tea.Cmd) {
	for _, key := range keys {
		msg := tea.KeyPressMsg{Text: key}
		switch key {
		case "up":
			msg = tea.KeyPressMsg{Code: tea.KeyUp}
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		case "end":
			msg = tea.KeyPressMsg{Code: tea.KeyEnd}
		case "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "backspace":
			msg = tea.KeyPressMsg{Code: tea.KeyBackspace}
		case "ctrl+c":
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		default:
			msg.Code, _ = utf8.DecodeRuneInString(key)
		}
		_, last = m.Update(msg)
	}
	return last
}

// golden compares a frame with its file.
func golden(t *testing.T, name, frame string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(frame), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), frame); diff != "" {
		t.Errorf("%s (-update writes it; -golden +drawn):\n%s", file, diff)
	}
}

// TestFrames checks frames as a user sees them after some keys, without styles.
func TestFrames(t *testing.T) {
	for name, test := range map[string]struct {
		machine       string
		width, height int
		keys          []string
	}{
		"list":       {"one-socket-6c", 80, 24, nil},
		"two":        {"two-socket-ht", 100, 30, []string{"down", "down"}},
		"loads":      {"one-socket-6c", 80, 24, []string{"l"}},
		"throttling": {"one-socket-6c", 80, 24, []string{"s", "s", "s"}},
		"filtering":  {"one-socket-6c", 80, 24, []string{"/", "S", "h", "o", "x", "backspace", "p"}},
		"filtered":   {"one-socket-6c", 80, 24, []string{"/", "s", "h", "o", "p", "enter", "down"}},
		"none":       {"one-socket-6c", 80, 24, []string{"/", "z", "z", "enter"}},
		"workload":   {"one-socket-6c", 80, 24, []string{"end", "enter"}},
		"machine":    {"nodes-64", 80, 24, []string{"m", "down", "down"}},
		"events":     {"one-socket-6c", 80, 24, []string{"e"}},
		"node":       {"one-socket-6c", 80, 24, []string{"n"}},
		"tiny":       {"one-socket-6c", 20, 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := terminal(t, test.machine, test.width, test.height)
			m.plain = true
			m.press(test.keys...)
			frame := m.View().Content
			golden(t, name, frame+"\n")
			fits(t, frame, test.width, test.height)
		})
	}
	golden(t, "plain", Plain(&bytes.Buffer{}, host(t, "one-socket-6c", 0), host(t, "one-socket-6c", 1)))
}

// TestLegendNamesCPUs checks that the legend shows which CPUs are free rather than how many.
func TestLegendNamesCPUs(t *testing.T) {
	for list, want := range map[string]string{"0": "shared CPU 5 (.)  free CPU 0", "": "shared CPU 5 (.)  free none", "0-2": "shared CPU 5 (.)  free CPUs 0-2"} {
		s := screen{now: &view.View{Pools: []capability.Pool{{Name: "offline"}, {Name: "shared", CPUs: set(t, "5")}, {Name: "free", CPUs: set(t, list)}}}}
		if got := s.legend(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// narrow is a screen of 80 columns that only prints.
type narrow struct{ bytes.Buffer }

func (*narrow) Columns() int { return 80 }

// TestPlainFitsTheScreen checks that a frame which is printed once is as wide as the screen.
func TestPlainFitsTheScreen(t *testing.T) {
	fits(t, Plain(&narrow{}, host(t, "one-socket-6c", 0), host(t, "one-socket-6c", 1)), 80, 24)
}

// fits checks that a frame fits its terminal.
func fits(t *testing.T, frame string, width, height int) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	if len(lines) > height {
		t.Errorf("%d lines, more than %d", len(lines), height)
	}
	for _, line := range lines {
		if n := lipgloss.Width(line); n > width {
			t.Errorf("%d columns, more than %d: %q", n, width, line)
		}
	}
}

// TestAnySizeAnyKeys checks, on several machines, that for any size and any order of keys the frames fit the terminal
// and the program does not end.
func TestAnySizeAnyKeys(t *testing.T) {
	sizes := [][2]int{{0, 0}, {1, 1}, {20, 5}, {80, 24}, {300, 100}}
	all := []string{"down", "m", "down", "e", "n", "down", "e", "up", "enter", "l", "esc", "s", "end", "enter", "down", "esc", "/", "x", "enter", "down", "enter", "esc", "/", "esc"}
	for _, machine := range []string{"arm64-80c", "memory-only-node", "kvm-guest-2c"} {
		m := terminal(t, machine, 80, 24)
		for _, size := range sizes {
			m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			for _, key := range all {
				if m.press(key) != nil {
					t.Errorf("%s ends the program", key)
				}
				fits(t, m.View().Content, max(1, size[0]), max(1, size[1]))
			}
		}
	}
}

// TestSmallTerminals checks that a list of at least four lines shows the selected workload.
func TestSmallTerminals(t *testing.T) {
	for height := 4; height <= 30; height++ {
		m := terminal(t, "one-socket-6c", 80, height)
		m.plain = true
		m.press("down", "down")
		if frame := m.View().Content; !strings.Contains(frame, "\n>   open ") {
			t.Errorf("%d lines do not show the selected workload:\n%s", height, frame)
		}
	}
}

// TestHostileTexts checks that no user's text moves the cursor or reverses a line.
func TestHostileTexts(t *testing.T) {
	m := terminal(t, "one-socket-6c", 80, 24)
	for _, frame := range []string{m.View().Content, Plain(&bytes.Buffer{}, nil, m.now)} {
		if strings.Contains(frame, "\x1b[2J") || strings.Contains(frame, "\u202e") {
			t.Errorf("%q", frame)
		}
	}
}

// TestSelection checks that the selection stays when the order changes, and that a view without the selected row
// selects the first.
func TestSelection(t *testing.T) {
	m := terminal(t, "one-socket-6c", 80, 24)
	m.press("down", "down")
	before := m.selected
	m.press("s", "s")
	if i, rows := m.found(); rows[i].name != before {
		t.Errorf("selected %s, before %s", rows[i].name, before)
	}
	m.now = view.Of(view.Facts{})
	if m.press("enter", "down", "up") != nil || m.View().Content == "" {
		t.Error("an empty view")
	}
}

// TestLookFails checks that a failed request is shown, and that the known data stays.
func TestLookFails(t *testing.T) {
	m := terminal(t, "one-socket-6c", 80, 24)
	if _, again := m.Update(looked{err: errors.New("it is away")}); again == nil {
		t.Error("it is not looked again")
	}
	if frame := m.View().Content; !strings.Contains(frame, "this is old, of 12:00:01: it is away") || !strings.Contains(frame, "batch") {
		t.Errorf("frame %s", frame)
	}
	m.Update(looked{err: errors.New("no agent runs: start berth agent, or see berth status for what is left on the host")})
	if frame := m.View().Content; !strings.Contains(frame, "left on the host") {
		t.Errorf("the message is cut: %s", frame)
	}
	m.Update(looked{view: host(t, "one-socket-6c", 2)})
	if strings.Contains(m.View().Content, "this is old") {
		t.Error("it is said still")
	}
}

// TestReport checks that the page of the node has the reports of each view, and that the same key closes the page.
func TestReport(t *testing.T) {
	m := terminal(t, "one-socket-6c", 80, 24)
	m.press("enter", "n")
	m.Update(looked{view: host(t, "one-socket-6c", 2)})
	if frame := m.View().Content; !strings.Contains(frame, "the bunks of 12:00:02?[2J") || strings.Contains(frame, "it is explained") {
		t.Errorf("frame %s", frame)
	}
	m.report = func(*view.View) []string { return nil }
	m.Update(looked{view: host(t, "one-socket-6c", 3)})
	if frame := m.View().Content; !strings.Contains(frame, "no capability reports anything about the node") {
		t.Errorf("frame %s", frame)
	}
	m.press("n")
	if m.page != pageList {
		t.Errorf("page %d after the second key", m.page)
	}
}

// TestLooksAgain checks that the next view is asked for at once, and after failures less and less often.
func TestLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := terminal(t, "one-socket-6c", 80, 24)
		seen, failed := looked{view: host(t, "one-socket-6c", 2)}, looked{err: errors.New("it is away")}
		m.look = func() tea.Msg { return seen }
		for i, test := range []struct {
			after tea.Msg // nil for the start
			want  time.Duration
		}{
			{nil, 0}, {seen, 0}, {failed, every}, {failed, 2 * every}, {failed, 4 * every}, {failed, seldom}, {failed, seldom}, {seen, 0}, {failed, every},
		} {
			next := m.Init()
			if test.after != nil {
				next = m.updated(test.after)
			}
			began := time.Now()
			if _, is := next().(looked); !is || time.Since(began) != test.want {
				t.Errorf("%d: a view %t after %v, want after %v", i, is, time.Since(began), test.want)
			}
		}
	})
}

// updated returns the command after a message.
func (m *model) updated(msg tea.Msg) tea.Cmd {
	_, next := m.Update(msg)
	return next
}

// frames is a terminal that reports when the first frame with the workload batch was drawn.
type frames struct {
	bytes.Buffer
	drawn chan struct{}
	once  sync.Once
}

func (f *frames) Write(p []byte) (int, error) {
	n, err := f.Buffer.Write(p)
	if bytes.Contains(f.Bytes(), []byte("batch")) {
		f.once.Do(func() { close(f.drawn) })
	}
	return n, err
}

// TestRun checks that the program draws, accepts keys and ends in a terminal, without colors if NO_COLOR is set.
func TestRun(t *testing.T) {
	for environ, colours := range map[string]bool{"COLORTERM=truecolor": true, "NO_COLOR=1": false} {
		in, keys := io.Pipe()
		out := frames{drawn: make(chan struct{})}
		go func() {
			<-out.drawn
			_, err := fmt.Fprint(keys, "q")
			_ = keys.CloseWithError(err)
		}()
		err := run(t.Context(), host(t, "one-socket-6c", 0), Options{
			Look:     func(context.Context) (*view.View, error) { return nil, errors.New("it is away") },
			Explain:  func(*view.View, string) []string { return nil },
			Report:   func(*view.View) []string { return nil },
			Terminal: Terminal{In: in, Out: &out, Environ: []string{"TERM=xterm-256color", "TTY_FORCE=1", environ}},
		}, tea.WithWindowSize(80, 24))
		if err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.Contains(text, "berth top") || strings.Contains(text, "48;2;230;159") != colours && strings.Contains(text, "48;5;") != colours {
			t.Errorf("%s: %q", environ, text)
		}
	}
}

// BenchmarkFrame draws 512 CPUs and 500 workloads.
func BenchmarkFrame(b *testing.B) {
	var cores []string
	for first := 0; first < 512; first += 2 {
		cores = append(cores, fmt.Sprintf(`{"id":%d,"cpus":"%d-%d"}`, first, first, first+1))
	}
	m, err := topology.Decode([]byte(`{"cores":[` + strings.Join(cores, ",") + `]}`))
	if err != nil {
		b.Fatal(err)
	}
	var o capability.Outcome
	o.Shown.Machine, o.Shown.Pools = m, []capability.Pool{{Name: "shared", CPUs: m.Online}}
	for i := range 500 {
		name := fmt.Sprintf("shop/web-%d/app", i)
		h := capability.Holding{Workload: name, CPUs: cpuset.Set{}.Add(i), Exclusive: i < 256}
		o.Shown.Holdings = append(o.Shown.Holdings, h)
		o.Shown.Quotas = append(o.Shown.Quotas, capability.Quota{Workload: name, Limit: 2, Now: 3, Credit: 5, Capacity: 9, Periods: 7})
	}
	var f view.Facts
	if f.Report, err = view.Join(nil, []view.Said{{Name: "place", Outcome: o}}); err != nil {
		b.Fatal(err)
	}
	s := screen{now: view.Of(f), before: view.Of(f), canvas: canvas{width: 200, height: 60}}
	for b.Loop() {
		_ = s.frame()
	}
}

// TestCurves checks that the page of a workload shows its quota and use of the last minutes once the agent has sent
// them, and requests them again with each view. Another workload's page must not show them.
func TestCurves(t *testing.T) {
	nan := math.NaN()
	past := &history.Past{
		Format: history.Format, Times: make([]int64, 8),
		Workloads: []history.Workload{{
			Name: "batch", Now: history.Column{2, 2, 2, 4, 4, 4, -1, 4}, Used: history.Column{nan, 0.5, 1, 1.5, 2, 2.5, 3, 3.5},
			Credit: history.Column{-1.5, 10, 20, 30, 40, 50, 60, 70}, Periods: history.Column{nan, 0, 100, 100, 100, 100, 100, 100},
			Throttled: history.Column{nan, 0, 0, 10, 20, 30, 40, 50},
		}},
	}
	var asked []string
	m := terminal(t, "one-socket-6c", 80, 24)
	m.plain = true
	m.recall = func(workload string) tea.Msg {
		if asked = append(asked, workload); workload != "batch" {
			return remembered{workload: workload}
		}
		return remembered{workload, past}
	}
	ask := m.press("enter")
	if m.selected != "batch" || ask == nil {
		t.Fatalf("%q is selected", m.selected)
	}
	m.Update(ask())
	frame := m.View().Content
	golden(t, "curves", frame+"\n")
	fits(t, frame, 80, 24)
	if _, again := m.Update(looked{view: host(t, "one-socket-6c", 2)}); again == nil || m.remember() == nil {
		t.Error("it is not asked again")
	}
	m.press("esc", "end")
	ask = m.press("enter")
	m.Update(ask())
	if frame := m.View().Content; strings.Contains(frame, "15 min") || asked[len(asked)-1] == "batch" {
		t.Errorf("asked for %v:\n%s", asked, frame)
	}
	if m.press("esc"); m.remember() != nil {
		t.Error("the list asks for the past of one workload")
	}
}

// TestThrottlingText checks that the explanation of a workload without a burst says how its quota throttled it.
func TestThrottlingText(t *testing.T) {
	said := view.Throttling{Limit: 0.5, Used: 0.2, Seconds: 10, Periods: 80, Throttled: 32, BurstHelps: true}
	for want, s := range map[string]screen{
		"throttled in 32 of 80 periods in 10 s, and used 0.2 of 0.5 CPUs: burst would help": {now: &view.View{Workloads: []view.Workload{{Name: "a", Throttling: &said}}}},
		"": {now: &view.View{Workloads: []view.Workload{{Name: "b", Throttling: &said}, {Name: "a"}}}},
	} {
		s.width, s.plain = 200, true
		if got := strings.Join(s.about("a")[1:], "\n"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestThrottlingOfAnotherGroup checks that counters that fell show no share: the group was made again, or has fewer
// groups above.
func TestThrottlingOfAnotherGroup(t *testing.T) {
	before := capability.Quota{Periods: 100, Throttled: 50, Above: 40}
	for name, tt := range map[string]struct {
		now              capability.Quota
		throttled, above float64
	}{
		"the same group":     {capability.Quota{Periods: 110, Throttled: 55, Above: 41}, 0.5, 0.1},
		"it ran longer":      {capability.Quota{Periods: 120, Throttled: 2, Above: 1}, 0, 0},
		"it ran for a while": {capability.Quota{Periods: 20, Throttled: 2, Above: 1}, 0.1, 0.05},
		"fewer groups above": {capability.Quota{Periods: 110, Throttled: 55, Above: 3}, 0.5, 0},
	} {
		w := view.Workload{Quota: &tt.now}
		if r := rowOf(&w, &before, nil); r.throttled != tt.throttled || r.above != tt.above {
			t.Errorf("%s: %v throttled, %v above", name, r.throttled, r.above)
		}
	}
}
