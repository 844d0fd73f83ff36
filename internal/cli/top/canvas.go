package top

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/berth-project/berth/internal/value/table"
)

// canvas has the size and the style of the frame.
type canvas struct {
	width, height int
	// plain disables styles and characters beyond ASCII.
	plain bool
}

// frameOf joins the head, the body and the last line. It cuts or pads the body.
func (c *canvas) frameOf(head, body []string, last string) string {
	space := c.height - len(head) - 1
	body = body[:max(0, min(len(body), space))]
	for len(body) < space {
		body = append(body, "")
	}
	all := append(append(head, body...), last)
	all = all[:max(0, min(len(all), c.height))]
	for i := range all {
		all[i] = c.clip(all[i])
	}
	return strings.Join(all, "\n")
}

// wrap breaks texts into lines that fit the width.
func (c *canvas) wrap(texts ...string) []string {
	var lines []string
	for _, text := range texts {
		lines = append(lines, table.Wrap(clean(text), max(1, c.width))...)
	}
	return lines
}

// paint renders text in a style, or unchanged on a plain canvas.
func (c *canvas) paint(style lipgloss.Style, text string) string {
	if c.plain {
		return text
	}
	return style.Render(text)
}

// clip cuts a line at the edge of the terminal.
func (c *canvas) clip(line string) string {
	return lipgloss.NewStyle().MaxWidth(max(1, c.width)).Render(line)
}
