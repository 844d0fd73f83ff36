package top

import (
	"context"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-project/berth/internal/history"
	"github.com/berth-project/berth/internal/table"
	"github.com/berth-project/berth/internal/view"
)

// every is how often the host is looked at. framesASecond bounds how long a key waits for its
// frame, and how often the terminal is looked after while nothing happens.
const (
	every         = time.Second
	framesASecond = 20
)

// Options are all needed but Past.
type Options struct {
	// Look returns a view of this moment. It is called once a second.
	Look func(context.Context) (*view.View, error)
	// Explain says of a workload of a view, a line each, why it has what it has; nothing where
	// no more is known than the view shows.
	Explain func(v *view.View, workload string) []string
	// Past returns what is kept of a workload, of PastSeconds in steps of PastStep, nil for nothing. It
	// is called once a second while the workload is shown; nil where nothing is kept of any.
	Past func(ctx context.Context, workload string) *history.Past
	Terminal
}

// Terminal is where frames are drawn. Environ is its environment: NO_COLOR counts.
type Terminal struct {
	In      io.Reader
	Out     io.Writer
	Environ []string
}

// Run shows first, and then what Look returns, until a key or ctx ends it.
func Run(ctx context.Context, first *view.View, o Options) error {
	return run(ctx, first, o)
}

func run(ctx context.Context, first *view.View, o Options, more ...tea.ProgramOption) error {
	m := &model{
		screen: screen{now: first}, explain: o.Explain,
		look: func() tea.Msg {
			v, err := o.Look(ctx)
			return looked{v, err}
		},
	}
	if o.Past != nil {
		m.recall = func(workload string) tea.Msg { return remembered{workload, o.Past(ctx, workload)} }
	}
	return o.run(ctx, m, more...)
}

// run shows a model until a key or ctx ends it.
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

// Plain is one frame without colours or signs beyond ASCII, of a host that was looked at twice, as
// wide as a table on w may be.
func Plain(w io.Writer, before, now *view.View) string {
	s := screen{before: before, now: now, canvas: canvas{plain: true, width: table.WidthOf(w)}}
	return s.whole()
}
