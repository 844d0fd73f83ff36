package top

import (
	"context"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/value/table"
)

// every is the pause before a host is read again after a failure, and the interval at which a cluster is read. With
// each further failure the pause doubles, up to seldom, as on the page: an agent may have too many viewers.
// framesASecond bounds how long a key waits for its frame, and how often the terminal is checked while nothing happens.
const (
	every         = time.Second
	seldom        = 5 * time.Second
	framesASecond = 20
)

// Options are the options of Run. All are required except Past.
type Options struct {
	// Look waits for the next view, and returns it. It is called again after each view, and after an error 1 to 5 s
	// later. The context ends when the user quits.
	Look func(context.Context) (*view.View, error)
	// Explain returns lines that explain a workload of a view, none if nothing is known beyond the view.
	Explain func(v *view.View, workload string) []string
	// Report returns lines about the node of a view, none if no capability reports anything.
	Report func(v *view.View) []string
	// Past returns what is remembered about a workload: PastSeconds in steps of PastStep, nil for nothing. It is called
	// after each view while the workload is shown. The function is nil if the agent remembers nothing.
	Past func(ctx context.Context, workload string) *history.Past
	Terminal
}

// Terminal is where frames are drawn. Environ is its environment; NO_COLOR takes effect.
type Terminal struct {
	In      io.Reader
	Out     io.Writer
	Environ []string
}

// Run shows first, then each view that Look returns, until the user quits or ctx ends. Look and Past have returned before
// Run returns.
func Run(ctx context.Context, first *view.View, o Options) error {
	return run(ctx, first, o)
}

func run(ctx context.Context, first *view.View, o Options, more ...tea.ProgramOption) error {
	ctx, end := context.WithCancel(ctx)
	var q questions
	defer q.join() // after the end of ctx
	defer end()
	m := &model{
		screen: screen{now: first}, explain: o.Explain, report: o.Report,
		look: q.views(ctx, o.Look),
	}
	if o.Past != nil {
		m.recall = func(workload string) tea.Msg {
			return q.ask(func() tea.Msg { return remembered{workload, o.Past(ctx, workload)} })
		}
	}
	return o.run(ctx, m, more...)
}

// run shows a model until the user quits or ctx ends.
func (t *Terminal) run(ctx context.Context, m tea.Model, more ...tea.ProgramOption) error {
	all := append([]tea.ProgramOption{
		tea.WithContext(ctx), tea.WithInput(t.In), tea.WithOutput(t.Out), tea.WithEnvironment(t.Environ), tea.WithoutSignalHandler(),
		tea.WithFPS(framesASecond),
	}, more...)
	if _, err := tea.NewProgram(m, all...).Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("show it in the terminal: %w", err)
	}
	return nil
}

// Plain returns one frame without colors or characters beyond ASCII, as wide as a table on w. It compares two views of
// the host.
func Plain(w io.Writer, before, now *view.View) string {
	s := screen{before: before, now: now, canvas: canvas{plain: true, width: table.WidthOf(w)}}
	return s.whole()
}
