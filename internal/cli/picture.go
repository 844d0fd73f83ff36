package cli

import (
	"io"

	"github.com/berth-project/berth/internal/cli/picture"
	"github.com/berth-project/berth/internal/linux/topology"
)

// formatSVG is the format of the commands that draw.
const formatSVG = "svg"

// writeSVG draws machines as an image.
func writeSVG(w io.Writer, title string, pictures []picture.Picture, notes ...string) error {
	return writeOutput(raw(w), picture.SVG(title, pictures, notes...))
}

// machinePicture returns a picture of a machine without holders. Each CPU shows its number.
func machinePicture(t *topology.Topology) picture.Picture {
	slow := t.Efficiency()
	return picture.Picture{Machine: t, Numbered: true, Mark: func(cpu int) picture.Mark {
		switch {
		case t.Isolated.Contains(cpu):
			return picture.Mark{Kind: picture.Isolated}
		case t.Reserved.Contains(cpu):
			return picture.Mark{Kind: picture.Off}
		case slow.Contains(cpu):
			return picture.Mark{Kind: picture.Efficiency}
		default:
			return picture.Mark{Kind: picture.Plain}
		}
	}}
}
