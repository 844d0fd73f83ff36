package table

import (
	"fmt"
	"strings"
	"unicode"
)

// Clean returns a text as one line that is safe on a terminal. Tenants and other programs write texts; escape sequences
// would move the cursor, line ends would forge lines, and bidirectional controls would reorder the line. A line end
// becomes a semicolon, a tab and any other space a blank, and any other unprintable character a question mark.
func Clean(text string) string {
	text = strings.ReplaceAll(strings.Trim(text, "\n"), "\n", "; ")
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		return printable(r)
	}, text)
}

// CleanLines is Clean for a text of several lines: it leaves line ends and tabs.
func CleanLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printable(r)
	}, text)
}

// printable returns what to print for a character. Of the spaces, unicode.IsPrint has only the blank; French and
// Chinese texts have others.
func printable(r rune) rune {
	switch {
	case unicode.Is(unicode.Zs, r):
		return ' '
	case !unicode.IsPrint(r):
		return '?'
	}
	return r
}

// Line adds one line to the page. Whatever the arguments hold, it stays one line, which Clean has cleaned.
func (p *Page) Line(format string, args ...any) {
	p.WriteString(Clean(fmt.Sprintf(format, args...)) + "\n")
}
