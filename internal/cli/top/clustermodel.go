package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/agent/view"
)

// ClusterOptions are the options of RunCluster. All are required except Past.
type ClusterOptions struct {
	// Look returns a current view. It is called once a second.
	Look func() *view.Cluster
	// Node is called when the user opens a node. The function that it returns waits for the next view of the node, and
	// returns it, as Options.Look does. Its first view is the present one. The context ends when the user leaves the
	// node, or no longer waits for it.
	Node func(name string) func(context.Context) (*view.View, error)
	// Past returns what a node's agent remembers about a workload, as in Options; nil if it cannot be asked.
	Past func(ctx context.Context, node, workload string) *history.Past
	// Explain and Report are as in Options.
	Explain func(v *view.View, workload string) []string
	Report  func(v *view.View) []string
	Terminal
}

// clusterLooked is the result of one read of the cluster.
type clusterLooked struct{ view *view.Cluster }

// opened is the first view of a node, or the error.
type opened struct {
	name  string
	first looked
	look  tea.Cmd // waits for the next view
	// over returns an error after the user left the node.
	over func() error
}

// ofNode is a message for the node on screen. It is dropped after the user left the node.
type ofNode struct {
	node *model
	msg  tea.Msg
}

// clusterModel is the state of a terminal that shows a cluster or a node.
type clusterModel struct {
	clusterScreen
	node  *model             // nil for the cluster
	leave context.CancelFunc // ends the views of the node, also while it opens
	look  tea.Cmd
	// open returns a command that opens a node, and the function that ends the views of this node.
	open    func(name string) (tea.Cmd, context.CancelFunc)
	explain func(*view.View, string) []string
	report  func(*view.View) []string
	// recall asks a node's agent what it remembers about a workload; nil if it cannot be asked.
	recall func(node, workload string) tea.Msg
}

// RunCluster shows first, then each view that Look returns, until the user quits or ctx ends. What Node returned, and
// Past, have returned before RunCluster returns.
func RunCluster(ctx context.Context, first *view.Cluster, o ClusterOptions) error {
	ctx, end := context.WithCancel(ctx)
	var q questions
	defer q.join() // after the end of ctx
	defer end()
	return o.run(ctx, newClusterModel(ctx, &q, first, o))
}

// newClusterModel returns a model that asks the agents of nodes by q.
func newClusterModel(ctx context.Context, q *questions, first *view.Cluster, o ClusterOptions) *clusterModel {
	m := &clusterModel{
		clusterScreen: clusterScreen{now: first}, explain: o.Explain, report: o.Report,
		look: func() tea.Msg { return clusterLooked{o.Look()} }, leave: func() {},
		open: func(name string) (tea.Cmd, context.CancelFunc) {
			ctx, end := context.WithCancel(ctx)
			return func() tea.Msg {
				look := q.views(ctx, o.Node(name))
				first, _ := look().(looked) // none if the program has ended
				return opened{name: name, first: first, look: look, over: ctx.Err}
			}, end
		},
	}
	if o.Past != nil {
		m.recall = func(node, workload string) tea.Msg {
			return q.ask(func() tea.Msg { return remembered{workload, o.Past(ctx, node, workload)} })
		}
	}
	return m
}

// Init implements tea.Model.
func (m *clusterModel) Init() tea.Cmd { return m.later() }

// later reads the cluster again after one interval.
func (m *clusterModel) later() tea.Cmd {
	return tea.Tick(every, func(time.Time) tea.Msg { return m.look() })
}

// Update implements tea.Model.
func (m *clusterModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.resize()
	case clusterLooked:
		m.now = msg.view
		return m, m.later()
	case opened:
		return m, m.enter(msg)
	case ofNode:
		if m.node != nil && msg.node == m.node {
			return m, m.toNode(msg.msg)
		}
	case tea.KeyPressMsg:
		switch {
		case m.node != nil:
			return m, m.pressedAtNode(msg)
		case m.typing:
			m.filter, m.typing = edited(m.filter, msg)
		default:
			return m, m.pressed(msg.String())
		}
	}
	return m, nil
}

// View implements tea.Model.
func (m *clusterModel) View() tea.View {
	text := m.frame()
	if m.node != nil {
		text = m.clip("node "+clean(m.name)+"  (esc: back to the cluster)") + "\n" + m.node.frame()
	}
	v := tea.NewView(text)
	v.AltScreen, v.WindowTitle = true, "berth top"
	return v
}

// enter shows a node, unless the user went back or asked for another node in the meantime.
func (m *clusterModel) enter(o opened) tea.Cmd {
	if o.over() != nil {
		return nil
	}
	if m.opening, m.failed = "", ""; o.first.err != nil {
		m.leave()
		m.failed = "node " + o.name + ": " + o.first.err.Error()
		return nil
	}
	m.name = o.name
	m.node = &model{screen: screen{now: o.first.view}, explain: m.explain, report: m.report, look: o.look}
	if m.recall != nil {
		m.node.recall = func(workload string) tea.Msg { return m.recall(o.name, workload) }
	}
	m.resize()
	return m.ofNode(m.node.Init())
}

// resize gives the node all lines below its title.
func (m *clusterModel) resize() {
	if m.node != nil {
		m.node.canvas = canvas{width: m.width, height: max(0, m.height-1), plain: m.plain}
	}
}

// toNode passes a message to the node on screen.
func (m *clusterModel) toNode(msg tea.Msg) tea.Cmd {
	_, cmd := m.node.Update(msg)
	return m.ofNode(cmd)
}

// ofNode wraps the messages of a command for the node on screen.
func (m *clusterModel) ofNode(cmd tea.Cmd) tea.Cmd { return m.node.wrapped(cmd) }

// wrapped returns a command whose messages are for this node. The messages of a batch come one by one.
func (m *model) wrapped(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() tea.Msg {
		msg := cmd()
		batch, several := msg.(tea.BatchMsg)
		if !several {
			return ofNode{m, msg}
		}
		all := make(tea.BatchMsg, len(batch))
		for i, one := range batch {
			all[i] = m.wrapped(one)
		}
		return all
	}
}

// pressedAtNode handles a key while a node is shown. In its list, esc returns to the cluster.
func (m *clusterModel) pressedAtNode(key tea.KeyPressMsg) tea.Cmd {
	switch word := key.String(); {
	case m.node.typing:
	case word == "q", word == "ctrl+c":
		return tea.Quit
	case word == "esc" && m.node.page == pageList:
		m.leave()
		m.node = nil
		return nil
	}
	return m.toNode(key)
}

// pressed handles a key while the cluster is shown.
func (m *clusterModel) pressed(key string) tea.Cmd {
	if by, is := travel(key, m.height); is {
		m.move(by)
		return nil
	}
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "s":
		m.order = (m.order + 1) % nodeOrders
	case "p":
		m.pods, m.scroll = !m.pods, 0
	case "/":
		m.pods, m.typing = false, true
	case "esc":
		m.leave()
		m.pods, m.opening, m.failed = false, "", ""
	case "enter":
		if i, nodes := m.found(); !m.pods && len(nodes) > 0 {
			m.leave()
			m.opening, m.failed, m.selected = nodes[i].Name, "", nodes[i].Name
			var opens tea.Cmd
			opens, m.leave = m.open(m.opening)
			return opens
		}
	}
	return nil
}
