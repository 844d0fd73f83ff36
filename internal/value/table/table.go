// Package table writes text in columns for a terminal.
//
// Each column is as wide as its widest cell while a line is at most as wide as WidthOf returns. If a line would be
// wider, the widest column shrinks step by step. The text of a cell then continues on the next lines, indented by two
// blanks. A cell breaks at blanks, and after commas and slashes, so that CPU lists and paths stay readable. It breaks
// inside a word only when that is not enough. No printable text is ever lost. Cells and lines of a page are clean: see
// Clean.
package table

import (
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

const (
	// Width is the most columns of a table on an output of unknown width, unless the least widths of its columns need
	// more.
	Width = 120
	// leastWidth is the width of a table on a narrower screen.
	leastWidth = 80
	// gap separates two columns.
	gap = "  "
	// hang indents every line of a cell except the first.
	hang = "  "
	// narrowest is the least width that a column of unbreakable words shrinks to.
	narrowest = 16
	// thinnest is the least width that Wrap breaks a text to.
	thinnest = len(hang) + 2
)

// WidthOf returns how many columns a text on w may have: the width of a screen, which has a method Columns, but at
// least 80. It is 120 for a file, a pipe, and a screen of unknown width.
func WidthOf(w io.Writer) int {
	if columns := ColumnsOf(w); columns > 0 {
		return max(columns, leastWidth)
	}
	return Width
}

// ColumnsOf returns the width of a screen, 0 if w is no screen or its width is unknown.
func ColumnsOf(w io.Writer) int {
	if screen, is := w.(interface{ Columns() int }); is {
		return max(0, screen.Columns())
	}
	return 0
}

// Page collects a text for an output of known width. The zero Page is for a file.
type Page struct {
	strings.Builder

	columns int
}

// PageFor returns an empty Page for w.
func PageFor(w io.Writer) *Page { return &Page{columns: WidthOf(w)} }

// Columns returns the width of the page's screen, 0 if it is unknown.
func (p *Page) Columns() int { return p.columns }

// Write writes the rows, with each cell cleaned; the first row may be a header. Rows may have different numbers of cells.
// An error comes from w.
func Write(w io.Writer, rows [][]string) error {
	rows = clean(rows)
	widths := columns(rows, WidthOf(w))
	var b strings.Builder
	for _, row := range rows {
		writeRow(&b, row, widths)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// clean returns a copy of the rows with clean cells.
func clean(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for y, row := range rows {
		out[y] = make([]string, len(row))
		for x, cell := range row {
			out[y][x] = Clean(cell)
		}
	}
	return out
}

func writeRow(b *strings.Builder, row []string, widths []int) {
	cells, height := make([][]string, len(row)), 1
	for i, cell := range row {
		cells[i] = Wrap(cell, widths[i])
		height = max(height, len(cells[i]))
	}
	for y := range height {
		var line strings.Builder
		for i, lines := range cells {
			text := ""
			if y < len(lines) {
				text = lines[y]
			}
			line.WriteString(text + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)) + gap)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// columns returns the widths of the columns. It begins with the natural widths and shrinks them until a line fits:
// first to the longest word of each column, then further.
func columns(rows [][]string, most int) []int {
	var natural, words []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(natural) {
				natural, words = append(natural, 0), append(words, 0)
			}
			natural[i] = max(natural[i], utf8.RuneCountInString(cell))
			for piece := range pieces(cell) {
				words[i] = max(words[i], utf8.RuneCountInString(strings.TrimRight(piece, " "))+len(hang))
			}
		}
	}
	least := make([]int, len(natural))
	for i := range least {
		words[i] = min(max(words[i], thinnest), natural[i])
		least[i] = min(words[i], narrowest)
	}
	return shrink(shrink(natural, words, most), least, most)
}

// shrink narrows the widest column above its least width, the last among equals, until the line fits or no column can
// shrink.
func shrink(widths, least []int, most int) []int {
	total := len(gap) * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	for ; total > most; total-- {
		widest := -1
		for i := range widths {
			if widths[i] > least[i] && (widest < 0 || widths[i] >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// Wrap breaks a text into lines of at most width columns. Every line except the first begins with two blanks. A width
// below 4 is treated as 4.
func Wrap(text string, width int) []string {
	width = max(width, thinnest)
	if utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line, empty := "", true
	flush := func() {
		lines, line, empty = append(lines, strings.TrimRight(line, " ")), hang, true
	}
	for piece := range pieces(text) {
		if !empty && utf8.RuneCountInString(line+strings.TrimRight(piece, " ")) > width {
			flush()
		}
		for room := width - utf8.RuneCountInString(line); utf8.RuneCountInString(strings.TrimRight(piece, " ")) > room; room = width - len(hang) {
			runes := []rune(piece)
			line += string(runes[:room])
			piece = string(runes[room:])
			flush()
		}
		line, empty = line+piece, false
	}
	return append(lines, strings.TrimRight(line, " "))
}

// pieces yields the unbreakable parts of a text. A part ends with the next blanks, comma or slash; a slash at the start
// of a path ends no part.
func pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			root := len(text) - len(strings.TrimLeft(text, "/("))
			end := root + strings.IndexAny(text[root:], " ,/") + 1
			if end == root {
				end = len(text)
			}
			for end < len(text) && text[end] == ' ' {
				end++
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// Bytes formats an amount of memory.
func Bytes(n int64) string {
	const mebi, gibi = 1 << 20, 1 << 30
	switch {
	case n == 0:
		return "no memory"
	case n < gibi:
		return fmt.Sprintf("%d MiB", n/mebi)
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/gibi)
	}
}
