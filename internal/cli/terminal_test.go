package cli_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cli/top"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/patience"
)

// Size of the terminal.
const (
	columns = 80
	rows    = 24
)

const (
	// keysOfTop is the last line of berth top's list.
	keysOfTop = "q quit  up/down  enter why  / filter  s sort  l load  m CPUs  e events  n node"
	// tiny is that list in a terminal of 20 columns and 5 rows.
	tiny = "berth top 1.2  12:00\nexclusive CPUs 0-1 (\n    WORKLOAD     STA\n>   batch        Act\nq quit  up/down  ent"
)

// showing is the script that the shell reads. It records the process of berth top, and the settings of the terminal
// before and after it.
const showing = `stty -g >before
sh -c 'echo $$ >pid; exec berth top --config agent.yaml'
code=$?
stty -g >after
echo "ended with $code"
`

// typed is the shell's screen before berth top.
const typed = "shell> echo keep-$((1+1))\nkeep-2\nshell>"

// TestTopInATerminal runs berth top from a shell in a real terminal, which tmux draws. Its frames must be those of the
// model, also after a resize. Keys must work. However it ends, the shell's screen and the terminal's settings must be
// back. While no agent runs, the last view stays.
func TestTopInATerminal(t *testing.T) {
	v := shown(t)
	t.Run("keys", func(t *testing.T) {
		p := newPane(t, v)
		p.show(v)
		for _, step := range []struct {
			want string
			keys []string
		}{
			{"> a shop/web-0/app  pinned", []string{"NPage"}},
			{"CPUs 0-1: it asked for 2 CPUs", []string{"Enter"}},
			{"> a shop/web-0/app  pinned", []string{"Escape"}},
			{">   batch ", []string{"PPage"}},
			{">   evil?[2J/app ", []string{"Down"}},
			{">   batch ", []string{"Up"}},
			{"  L3 0: 0 3 6 9\n", []string{"l"}},
			{"  L3 0: a a . . . .\n", []string{"l"}},
			{"CPUPinned shop/web-0: app has the CPUs 0-1", []string{"e"}},
			{"  L3 0: a a . . . .\n", []string{"m"}},
			{"node use 0 % of 0 CPUs", []string{"n"}},
			{keysOfTop, []string{"n"}},
			{"filter: shop_", []string{"/", "s", "h", "o", "p"}},
			{"load 50 %  filter: shop\n", []string{"Enter"}},
			{"filter: shop_", []string{"/"}},
			{">   batch ", []string{"Escape"}},
			{"by CPUs", []string{"s"}},
			{"by name", []string{"s", "s", "s"}},
		} {
			p.press(step.keys...)
			p.until(fmt.Sprintf("%q after %q", step.want, step.keys), func(screen string) bool { return strings.Contains(screen, step.want) })
		}
		p.shows(frame(v))
		p.resize(20, 5)
		p.shows(tiny)
		p.resize(columns, rows)
		p.shows(frame(v))
		p.press("q")
		p.ended()
	})
	t.Run("agent ends", func(t *testing.T) {
		p := newPane(t, v)
		p.show(v)
		p.end()
		const old = "this is old, of 12:00:01: no agent runs"
		p.until(old, func(screen string) bool {
			return strings.Contains(screen, old) && strings.Contains(screen, ">   batch ")
		})
		p.serve(v)
		p.shows(frame(v))
		p.press("q")
		p.ended()
	})
	for name, end := range map[string]func(*pane){
		"interrupted": func(p *pane) { p.press("C-c") },
		"killed":      (*pane).kill,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPane(t, v)
			p.show(v)
			end(p)
			p.ended()
		})
	}
}

// shown returns a view with workloads of several kinds. It does not change, so that a frame stays as it is.
func shown(t *testing.T) *view.View {
	t.Helper()
	machine, err := topology.Decode([]byte(content(t, machinesDir+"one-socket-6c.golden.json")))
	if err != nil {
		t.Fatal(err)
	}
	held, err := cpuset.Parse("0-1")
	if err != nil {
		t.Fatal(err)
	}
	shared := machine.Online.Difference(held)
	var o capability.Outcome
	o.Shown = capability.Shown{
		Machine: machine, Pools: []capability.Pool{{Name: "exclusive", CPUs: held}, {Name: "shared", CPUs: shared}},
		Holdings: []capability.Holding{
			{Workload: "shop/web-0/app", CPUs: held, Exclusive: true, Why: "it asked for 2 CPUs"},
			{Workload: "shop/late-0/app", Refused: "1 node had fewer than 2 free cores"},
			{Workload: "evil\x1b[2J/app", CPUs: shared},
		},
		Quotas: []capability.Quota{{Workload: "batch", Limit: 2, Now: 3.5, Credit: 30, Capacity: 120}},
	}
	o.Rows = []capability.Row{{Workload: capability.Workload{Name: "batch", State: "Active"}}}
	f := view.Facts{
		Version: "1.2", At: time.Date(2026, 11, 23, 12, 0, 1, 0, time.UTC), LoadSeconds: 1, Loads: []float64{0, 1.0 / 3, 2.0 / 3, 1},
		Throttling: map[string]*view.Throttling{"shop/late-0/app": {Limit: 0.5, Used: 0.2, Seconds: 10, Periods: 80, Throttled: 32, BurstHelps: true}},
	}
	f.Events = []view.Event{{At: f.At, About: "shop/web-0", Reason: "CPUPinned", Text: "app has the CPUs 0-1"}}
	if f.Report, err = view.Join(nil, []view.Said{{Name: "place", Outcome: o}}); err != nil {
		t.Fatal(err)
	}
	return view.Of(f)
}

// frame returns the list of a view in the whole terminal: the lines of a plain frame, with the first workload selected
// and the keys at the bottom.
func frame(v *view.View) string {
	lines := strings.Split(strings.TrimSuffix(top.Plain(&terminal{}, nil, v), "\n"), "\n")
	heading := slices.Index(lines, "") // only the plain frame has this line
	lines = slices.Delete(lines, heading, heading+1)
	lines[heading+1] = ">" + lines[heading+1][1:]
	for len(lines) < rows-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, keysOfTop), "\n")
}

// pane is a shell in a real terminal, the only one of its tmux server.
type pane struct {
	t testing.TB
	// dir is the directory of the shell, of the agent's file and of tmux's socket.
	dir string
	// modes are the modes of the terminal before berth top.
	modes string
	// end ends the agent.
	end func()
}

// serve starts an agent that shows v.
func (p *pane) serve(v *view.View) {
	p.t.Helper()
	p.serveFrom(func() (*view.View, error) { return v, nil })
}

// serveFrom starts an agent that shows what look returns: to streams only, so that berth top is seen to follow one.
func (p *pane) serveFrom(look func() (*view.View, error)) {
	p.t.Helper()
	node := web.NewNode(look, quiet()).Handler()
	mux := http.NewServeMux()
	mux.Handle("GET "+window.StreamPath, node)
	mux.Handle("GET "+window.PastPath, node)
	p.end = agentIn(p.t, p.dir, mux)
}

// newPane starts a shell beside an agent that shows v.
func newPane(t testing.TB, v *view.View) *pane {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skipf("%v; `make deps` installs it, and `make test` has that", err)
	}
	p := &pane{t: t, dir: t.TempDir()}
	p.serve(v)
	agentFile(t, p.dir, "127.0.0.1:1")
	write(t, p.dir, "show", showing)
	t.Cleanup(func() { _ = p.command("kill-server").Run() })
	p.tmux("new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows), "-c", p.dir, "env", "ENV=", "PS1=shell> ", "sh")
	p.shows("shell>")
	p.enter("echo keep-$((1+1))")
	p.shows(typed)
	p.modes = p.mode()
	return p
}

// command returns a command to the tmux server. The first command starts the server.
func (p *pane) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(p.t.Context()), "tmux",
		append([]string{"-f", "/dev/null", "-u", "-S", filepath.Join(p.dir, "tmux")}, args...)...)
	cmd.Env = append(cmd.Environ(), "LC_ALL=C.UTF-8")
	return cmd
}

// tmux runs a command that must succeed, and returns its output.
func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	out, err := p.command(args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// press sends keys by tmux's names.
func (p *pane) press(keys ...string) {
	p.t.Helper()
	p.tmux(append([]string{"send-keys"}, keys...)...)
}

// enter types a line.
func (p *pane) enter(line string) {
	p.t.Helper()
	p.tmux("send-keys", "-l", line)
	p.press("Enter")
}

func (p *pane) resize(width, height int) {
	p.t.Helper()
	p.tmux("resize-window", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height))
}

// mode returns the modes of the terminal. The first two are whether the alternate screen is on, and whether there is a
// cursor; the others are those of keys, mouse, margins and line ends.
func (p *pane) mode() string {
	p.t.Helper()
	return p.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{keypad_flag} #{keypad_cursor_flag} #{mouse_any_flag} "+
		"#{mouse_sgr_flag} #{insert_flag} #{origin_flag} #{wrap_flag} #{scroll_region_upper} #{scroll_region_lower}")
}

// until waits until the screen is as is requires. The bars of berth top are those of a plain frame.
func (p *pane) until(what string, is func(screen string) bool) {
	p.t.Helper()
	p.untilSeen(50*time.Millisecond, what, is)
}

// untilSeen is until with the time between two looks at the screen.
func (p *pane) untilSeen(every time.Duration, what string, is func(screen string) bool) {
	p.t.Helper()
	plain := strings.NewReplacer("█", "#", "░", ".")
	err := patience.Until(p.t.Context(), every, func() string {
		screen := strings.TrimRight(plain.Replace(p.tmux("capture-pane", "-p")), "\n")
		if is(screen) {
			return ""
		}
		return "want " + what + "\nthe screen:\n" + screen
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// shows waits until the screen is want.
func (p *pane) shows(want string) {
	p.t.Helper()
	p.until(want, func(screen string) bool { return screen == want })
}

// show has the shell run berth top, and waits for its frame, which must be on the alternate screen.
func (p *pane) show(v *view.View) {
	p.t.Helper()
	p.enter(". ./show")
	p.shows(frame(v))
	if mode := p.mode(); !strings.HasPrefix(mode, "1 0 ") {
		p.t.Errorf("modes while it runs: %s, want the alternate screen without a cursor", mode)
	}
}

// pid returns the process of berth top.
func (p *pane) pid() int {
	p.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(content(p.t, filepath.Join(p.dir, "pid"))))
	if err != nil {
		p.t.Fatal(err)
	}
	return pid
}

// kill ends berth top as the command kill does.
func (p *pane) kill() {
	p.t.Helper()
	if err := syscall.Kill(p.pid(), syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// ended waits until berth top has ended without an error, and compares the terminal with that before it.
func (p *pane) ended() {
	p.t.Helper()
	p.shows(typed + " . ./show\nended with 0\nshell>")
	if mode := p.mode(); mode != p.modes {
		p.t.Errorf("modes after it: %s, before it: %s", mode, p.modes)
	}
	before, after := content(p.t, filepath.Join(p.dir, "before")), content(p.t, filepath.Join(p.dir, "after"))
	if before == "" || after != before {
		p.t.Errorf("settings after it: %s, before it: %s", after, before)
	}
}
