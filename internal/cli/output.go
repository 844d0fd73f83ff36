package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/berth-project/berth/internal/value/table"
)

// output is a standard stream of a command, for people. It cleans each text (table.CleanLines), since nodes, tenants and
// other programs wrote parts of it. Only what programs read bypasses it (raw).
type output struct {
	to io.Writer
	// columns is the width of a terminal, 0 if it is unknown or if the stream is no terminal.
	columns int
	// styled is whether the styles of a painter pass.
	styled bool
}

// outputTo returns the output to a stream. It has styles only on a terminal that knows them, and only if NO_COLOR
// (no-color.org) is not set.
func outputTo(stream io.Writer) *output {
	o := &output{to: stream, columns: table.ColumnsOf(stream)}
	if !term.IsTerminal(int(o.Fd())) {
		return o
	}
	o.styled = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if columns, _, err := term.GetSize(int(o.Fd())); err == nil {
		o.columns = columns
	}
	return o
}

// Columns returns the width of the terminal in columns, 0 if it is unknown.
func (o *output) Columns() int { return o.columns }

// Fd returns the descriptor of a file, an invalid one for any other stream.
func (o *output) Fd() uintptr {
	if file, is := o.to.(interface{ Fd() uintptr }); is {
		return file.Fd()
	}
	return ^uintptr(0)
}

// Write implements io.Writer. Each call is a whole text.
func (o *output) Write(text []byte) (int, error) {
	if _, err := io.WriteString(o.to, o.clean(string(text))); err != nil {
		return 0, err //nolint:wrapcheck // a closed standard stream needs no context
	}
	return len(text), nil
}

// clean cleans a text, except for the styles of a painter.
func (o *output) clean(text string) string {
	if !o.styled {
		return table.CleanLines(text)
	}
	var b strings.Builder
	for text != "" {
		at, style := len(text), ""
		for _, s := range []string{bold, yellow, reset} {
			if i := strings.Index(text, s); i >= 0 && i < at {
				at, style = i, s
			}
		}
		b.WriteString(table.CleanLines(text[:at]) + style)
		text = text[at+len(style):]
	}
	return b.String()
}

// raw returns the stream behind an output, for texts that programs read, and for programs that draw.
func raw(w io.Writer) io.Writer {
	if o, is := w.(*output); is {
		return o.to
	}
	return w
}
