package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/agent/view"
)

// shop returns a cluster with a node for each obstacle that may keep pods away, and waiting pods.
func shop() *view.Cluster {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	return &view.Cluster{
		Format: view.Format, Server: "https://shop.example:6443", At: at,
		Nodes: []view.Node{
			{Name: "node-a", CPUs: 62, FreeCPUs: 40, L3: 8, FreeL3: 4, Fragmentation: 20, Pinned: 3, Pods: 31},
			{Name: "node-b", CPUs: 62, FreeCPUs: 12, L3: 8, Fragmentation: 100, Pinned: 9, Pods: 40, Notes: []string{"cordoned"}},
			{Name: "node-c", CPUs: 30, FreeCPUs: 28, L3: 4, FreeL3: 4, Pods: 2, Obstacle: "not pinnable: KubeletCPUManager: the kubelet's CPU manager has the policy static and gives out CPUs itself"},
			{Name: "node-d", Pods: 5, Obstacle: "no NodeTopology: does Berth's agent run there?"},
		},
		Pending: []view.Pending{
			{Namespace: "shop", Pod: "db-0", CPUs: 64, Scheduler: "berth-scheduler", Since: at.Add(-3 * time.Hour), Why: "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) had a Berth agent that did not renew its Lease, 2 Insufficient cpu."},
			{Namespace: "shop", Pod: "web-1", CPUs: 4, Scheduler: "berth-scheduler", Since: at.Add(-5 * time.Second), Why: "node-a would take it now", Node: "node-a"},
			{Namespace: "batch", Pod: "job", Scheduler: "default\x1b[2J", Since: at.Add(-50 * time.Hour), Why: "held back by the scheduling gate \"a\x1b[2J\u202eb\""},
		},
		PendingTotal: 7, Problems: []string{"nodes are those of 11:59:01: nodes is forbidden", "pods are those of 11:59:02: pods is forbidden"},
	}
}

// TestPlainCluster checks that a plain frame has all nodes and pods, and that no user's text moves the cursor.
func TestPlainCluster(t *testing.T) {
	var b bytes.Buffer
	if err := PlainCluster(&b, shop()); err != nil {
		t.Fatal(err)
	}
	golden(t, "cluster-plain", b.String())
}

func TestPlainEmptyCluster(t *testing.T) {
	var b bytes.Buffer
	if err := PlainCluster(&b, &view.Cluster{Server: "s", Nodes: []view.Node{}}); err != nil {
		t.Fatal(err)
	}
	const want = "00:00:00  nodes: 0  pinnable: 0  free CPUs: 0  pending pods: 0  s\nNODE  FREE  CPUS  WHOLE L3  FRAGMENTATION  PINNED  PODS  PINNABLE\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Hour: "0s", 59 * time.Second: "59s", 61 * time.Minute: "1h", time.Minute: "1m", 49 * time.Hour: "2d"} {
		if got := age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// asked records the nodes whose agents a terminal asked.
type asked struct {
	names []string
	err   error
	last  context.Context // of the last question
}

// clusterTerminal returns a terminal of some size that shows a cluster.
func clusterTerminal(t *testing.T, a *asked, width, height int) *clusterModel {
	t.Helper()
	m := newClusterModel(t.Context(), &questions{}, shop(), ClusterOptions{
		Look: shop, Explain: func(*view.View, string) []string { return []string{"it is explained"} },
		Report: func(*view.View) []string { return []string{"bunks: all made"} },
		Node: func(name string) func(context.Context) (*view.View, error) {
			return func(ctx context.Context) (*view.View, error) {
				a.names, a.last = append(a.names, name), ctx
				return host(t, "one-socket-6c", uint64(len(a.names))), a.err
			}
		},
	})
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return m
}

// enterNode opens the selected node.
func (m *clusterModel) enterNode() {
	m.Update(press(m, "enter")())
}

// TestClusterFrames checks frames of a cluster, and of one of its nodes, after some keys.
func TestClusterFrames(t *testing.T) {
	for name, test := range map[string]struct {
		width, height int
		keys          []string
		opens         bool
		err           error
	}{
		"list":     {width: 100, height: 14},
		"selected": {width: 80, height: 12, keys: []string{"down", "down"}},
		"named":    {width: 80, height: 12, keys: []string{"s"}},
		"filtered": {width: 80, height: 12, keys: []string{"/", "s", "t", "a", "t", "i", "c", "enter"}},
		"none":     {width: 80, height: 12, keys: []string{"/", "x", "y"}},
		"pods":     {width: 80, height: 14, keys: []string{"p"}},
		"opening":  {width: 80, height: 12, keys: []string{"down", "enter"}},
		"node":     {width: 80, height: 24, opens: true},
		"workload": {width: 80, height: 24, keys: []string{"enter"}, opens: true},
		"report":   {width: 80, height: 24, keys: []string{"n"}, opens: true},
		"failed":   {width: 80, height: 12, opens: true, err: errors.New("User \"a\" cannot create resource \"serviceaccounts/token\"")},
		"tiny":     {width: 20, height: 5},
	} {
		t.Run(name, func(t *testing.T) {
			m := clusterTerminal(t, &asked{err: test.err}, test.width, test.height)
			m.plain = true
			if test.opens {
				m.enterNode()
			}
			press(m, test.keys...)
			frame := m.View().Content
			golden(t, "cluster-"+name, frame+"\n")
			fits(t, frame, test.width, test.height)
			if strings.Contains(frame, "\x1b[2J") || strings.Contains(frame, "\u202e") {
				t.Errorf("the text of a user is drawn as it is: %q", frame)
			}
		})
	}
}

// TestClusterOpensNode checks that Enter opens a node through its agent, which is asked only while the node is shown.
// Esc closes the views one after the other.
func TestClusterOpensNode(t *testing.T) {
	a := &asked{}
	m := clusterTerminal(t, a, 80, 24)
	press(m, "down")
	m.enterNode()
	if m.node == nil || m.name != "node-b" || len(a.names) != 1 || a.names[0] != "node-b" {
		t.Fatalf("%q, asked %q", m.name, a.names)
	}
	left := m.node
	_, again := m.Update(ofNode{left, left.look()})
	if again == nil || len(a.names) != 2 || left.before == nil {
		t.Errorf("asked %q, and again %t", a.names, again != nil)
	}
	press(m, "enter", "esc")
	if m.node == nil || m.node.page != pageList {
		t.Error("esc left the node from a workload")
	}
	press(m, "/", "q", "esc")
	if m.node == nil || m.node.typing {
		t.Error("a filter was taken for a key of the cluster")
	}
	if a.last.Err() != nil {
		t.Error("the views end while the node is shown")
	}
	press(m, "esc")
	if m.node != nil || !strings.Contains(m.View().Content, "> node-b") || a.last.Err() == nil {
		t.Errorf("%v, %s", a.last.Err(), m.View().Content)
	}
	if _, again := m.Update(ofNode{left, looked{view: left.now}}); again != nil {
		t.Error("a node that was left is asked again")
	}
	// A late answer for a node that nobody waits for any more opens nothing.
	slow := press(m, "enter")
	press(m, "esc")
	m.Update(slow())
	if a.last.Err() == nil {
		t.Error("the views of a node go on that nobody waits for")
	}
	first, second := press(m, "enter"), press(m, "up", "enter")
	m.Update(first())
	if m.node != nil {
		t.Error("a node is open that no one waits for")
	}
	m.Update(second())
	if m.node == nil || m.name != "node-a" {
		t.Errorf("%s is open", m.name)
	}
	for _, key := range []string{"q", "ctrl+c"} {
		if end := press(m, key); end == nil || end() != (tea.QuitMsg{}) {
			t.Errorf("%s does not end it", key)
		}
	}
}

// TestClusterLeavesOpening checks that Esc ends the question to a node that does not answer, and that its late answer
// is not taken for that of the same node, opened again.
func TestClusterLeavesOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newClusterModel(t.Context(), &questions{}, shop(), ClusterOptions{
			Look: shop,
			Node: func(string) func(context.Context) (*view.View, error) {
				return func(ctx context.Context) (*view.View, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			},
		})
		answer := make(chan tea.Msg)
		opens := press(m, "enter")
		go func() { answer <- opens() }()
		synctest.Wait() // it asks the node
		press(m, "esc")
		late := <-answer
		press(m, "enter")
		m.Update(late)
		if m.node != nil || m.opening != "node-a" || m.failed != "" {
			t.Errorf("opens %q, failed %q, shows %v", m.opening, m.failed, m.node)
		}
		press(m, "esc")
	})
}

// TestClusterRemembers checks that the past is requested from the agent of the shown node, as long as one of its
// workloads is shown.
func TestClusterRemembers(t *testing.T) {
	m, kept, of := clusterTerminal(t, &asked{}, 80, 24), &history.Past{}, []string{}
	m.recall = func(node, workload string) tea.Msg {
		of = append(of, node+" "+workload)
		return remembered{workload, kept}
	}
	press(m, "down")
	m.enterNode()
	if ask := press(m, "down"); ask != nil {
		t.Error("a list of workloads asks for the past of one")
	}
	ask := press(m, "enter")
	if ask == nil {
		t.Fatal("nothing is asked of a workload")
	}
	m.Update(ask())
	if want := []string{"node-b " + m.node.selected}; !slices.Equal(of, want) || m.node.past.past != kept || m.node.past.workload != m.node.selected {
		t.Errorf("asked %q, want %q; has %v", of, want, m.node.past)
	}
}

// TestClusterNodeGoesOn checks that a node whose workload is shown is asked again after each view, together with the
// past of the workload.
func TestClusterNodeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{}
		m := clusterTerminal(t, a, 80, 24)
		m.recall = func(_, workload string) tea.Msg { return remembered{workload: workload} }
		m.enterNode()
		press(m, "enter")
		for range 3 {
			before := len(a.names)
			_, next := m.Update(ofNode{m.node, m.node.look()})
			batch, several := next().(tea.BatchMsg)
			if !several || len(batch) != 2 {
				t.Fatalf("%v, want a view and the past", batch)
			}
			var views, pasts int
			for _, one := range batch {
				msg, ours := one().(ofNode)
				if !ours || msg.node != m.node {
					t.Fatalf("%v is for no node", msg)
				}
				switch msg.msg.(type) {
				case looked:
					views++
				case remembered:
					pasts++
				}
			}
			if views != 1 || pasts != 1 || len(a.names) != before+2 {
				t.Errorf("%d views and %d pasts, asked %d times", views, pasts, len(a.names)-before)
			}
		}
	})
}

// TestRunCluster checks that the program shows a cluster in a terminal, and ends with its input.
func TestRunCluster(t *testing.T) {
	in, keys := io.Pipe()
	var out bytes.Buffer
	go func() {
		_, err := fmt.Fprint(keys, "q")
		_ = keys.CloseWithError(err)
	}()
	terminal := Terminal{In: in, Out: &out, Environ: []string{"TERM=xterm-256color", "TTY_FORCE=1"}}
	m := newClusterModel(t.Context(), &questions{}, shop(), ClusterOptions{Look: shop})
	if err := terminal.run(t.Context(), m, tea.WithWindowSize(100, 20)); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "node-a") || !strings.Contains(text, "pending pods: 7") {
		t.Errorf("%q", text)
	}
}

// TestClusterAnySizeAnyKeys checks that frames fit the terminal for any size and any order of keys, with and without
// nodes.
func TestClusterAnySizeAnyKeys(t *testing.T) {
	all := []string{"down", "p", "down", "end", "p", "s", "enter", "esc", "end", "/", "x", "enter", "down", "esc", "/", "esc", "s", "s", "s", "up"}
	for _, size := range [][2]int{{0, 0}, {1, 1}, {20, 5}, {80, 24}, {300, 100}} {
		for _, v := range []*view.Cluster{shop(), {}} {
			m := clusterTerminal(t, &asked{}, size[0], size[1])
			m.Update(clusterLooked{v})
			for _, key := range all {
				press(m, key)
				fits(t, m.View().Content, max(1, size[0]), max(1, size[1]))
			}
		}
	}
}
