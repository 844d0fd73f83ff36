package top

import (
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-project/berth/internal/agent/view"
)

// looked is the result of one read of the host.
type looked struct {
	view *view.View
	err  error
}

// model is the state of a terminal.
type model struct {
	screen
	explain func(*view.View, string) []string
	report  func(*view.View) []string
	look    tea.Cmd       // waits for the next view
	pause   time.Duration // before the host is read again, 0 after a view
	// recall returns what is remembered about a workload; nil if nothing is.
	recall func(workload string) tea.Msg
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.look }

// later reads the host again after a pause.
func (m *model) later() tea.Cmd {
	m.pause = min(max(every, 2*m.pause), seldom)
	return tea.Tick(m.pause, func(time.Time) tea.Msg { return m.look() })
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case looked:
		next := m.look
		if m.err = msg.err; msg.err == nil {
			m.before, m.now, m.pause = m.now, msg.view, 0
		} else {
			next = m.later()
		}
		m.refresh()
		return m, tea.Batch(next, m.remember())
	case remembered:
		m.past = msg
	case tea.KeyPressMsg:
		if m.typing {
			m.typed(msg)
			return m, nil
		}
		return m, m.pressed(msg.String())
	}
	return m, nil
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen, v.WindowTitle = true, "berth top"
	return v
}

// refresh reads again what the capabilities report about the selected workload or the node.
func (m *model) refresh() {
	switch m.page {
	case pageWorkload:
		m.made.lines = m.explain(m.now, m.selected)
	case pageNode:
		m.made.lines = m.report(m.now)
	}
}

// typed handles a key for the filter.
func (m *model) typed(key tea.KeyPressMsg) { m.filter, m.typing = edited(m.filter, key) }

// edited returns the filter after a key, and whether the user is still typing it.
func edited(filter string, key tea.KeyPressMsg) (text string, typing bool) {
	switch key.String() {
	case "enter", "ctrl+c":
		return filter, false
	case "esc":
		return "", false
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(filter)
		return filter[:len(filter)-size], true
	default:
		return filter + clean(key.Text), true
	}
}

// pressed handles a key. It returns a command, or nil.
func (m *model) pressed(key string) tea.Cmd {
	if by, is := travel(key, m.height); is {
		m.move(by)
		return nil
	}
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "enter":
		m.turn(key)
		return m.remember()
	default:
		m.turn(key)
		return nil
	}
}

// travel returns how many rows a key moves down. A move ends at the first or the last row.
func travel(key string, height int) (by int, is bool) {
	const far = 1 << 16
	switch key {
	case "up", "k":
		return -1, true
	case "down", "j":
		return 1, true
	case "pgup":
		return -max(1, height/2), true
	case "pgdown", "space":
		return max(1, height/2), true
	case "home", "g":
		return -far, true
	case "end", "G":
		return far, true
	default:
		return 0, false
	}
}

// remember asks what is remembered about the workload on screen.
func (m *model) remember() tea.Cmd {
	if m.page != pageWorkload || m.recall == nil {
		return nil
	}
	name := m.selected
	return func() tea.Msg { return m.recall(name) }
}

// turn handles a key that changes what is shown.
func (m *model) turn(key string) {
	switch key {
	case "esc":
		m.page, m.scroll = pageList, 0
	case "enter":
		if i, rows := m.found(); m.page == pageList && len(rows) > 0 {
			m.page, m.scroll, m.selected = pageWorkload, 0, rows[i].name
			m.refresh()
		} else {
			m.page, m.scroll = pageList, 0
		}
	case "/":
		m.page, m.scroll, m.typing = pageList, 0, true
	case "s":
		m.order = (m.order + 1) % orders
	case "l":
		m.loads = !m.loads
	case "m":
		m.toggle(pageMachine)
	case "e":
		m.toggle(pageEvents)
	case "n":
		m.toggle(pageNode)
	}
}

// toggle shows page p, or the list if p is already shown.
func (m *model) toggle(p page) {
	if m.scroll = 0; m.page == p {
		p = pageList
	}
	m.page = p
	m.refresh()
}

// move selects another workload or scrolls the page.
func (m *model) move(by int) {
	if m.page != pageList {
		m.scroll = max(0, min(m.scroll+by, len(m.body())-1))
		return
	}
	if i, rows := m.found(); len(rows) > 0 {
		m.selected = rows[max(0, min(i+by, len(rows)-1))].name
	}
}
