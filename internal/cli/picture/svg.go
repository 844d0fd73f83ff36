package picture

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berth-project/berth/internal/linux/topology"
)

// Lengths of an SVG in its own units, which a browser scales to pixels.
const (
	pageWidth = 960
	margin    = 16
	cell      = 24 // one thread
	coreGap   = 6
	pad       = 8  // inside a box
	line      = 20 // a line of text
	boxGap    = 10
	// longestName is the most characters of a name; the title has the full name.
	longestName = 110
)

// colour is the fill of a cell and the color of the text on it.
type colour struct{ fill, ink string }

// palette returns the colors of holders (Okabe and Ito), each with black or white text.
func palette() []colour {
	return []colour{
		{"#e69f00", "#000000"},
		{"#56b4e9", "#000000"},
		{"#009e73", "#000000"},
		{"#f0e442", "#000000"},
		{"#0072b2", "#ffffff"},
		{"#d55e00", "#000000"},
		{"#cc79a7", "#000000"},
		{"#000000", "#ffffff"},
	}
}

// HolderColours returns a holder's fill and text color, by its number.
func HolderColours(holder int) (fill, ink string) {
	c := palette()[holder%len(palette())]
	return c.fill, c.ink
}

// colours returns the colors of the kinds on a light and on a dark background.
func colours() (light, dark [kinds]colour) {
	light = [kinds]colour{
		Plain: {"#f6f8fa", "#424a53"}, Chosen: {"#0072b2", "#ffffff"}, Empty: {"#ffffff", "#424a53"}, Taken: {"#57606a", "#ffffff"},
		Off: {"#d0d7de", "#424a53"}, Free: {"#f6f8fa", "#424a53"}, Efficiency: {"#f0e442", "#000000"}, Isolated: {"#d0d7de", "#424a53"},
	}
	dark = light
	dark[Plain], dark[Free] = colour{"#161b22", "#c9d1d9"}, colour{"#161b22", "#c9d1d9"}
	dark[Empty] = colour{"#0d1117", "#c9d1d9"}
	dark[Off], dark[Isolated] = colour{"#3d444d", "#e6edf3"}, colour{"#3d444d", "#e6edf3"}
	return light, dark
}

// Colours of the page: background, text, and the lines of boxes.
const (
	lightPage, lightInk, lightLine = "#ffffff", "#1f2328", "#8c959f"
	darkPage, darkInk, darkLine    = "#0d1117", "#e6edf3", "#6e7681"
)

// svg is a drawing that grows downwards.
type svg struct {
	strings.Builder
	y, width int
}

// SVG draws machines one below the other, with a title above and notes below them.
func SVG(title string, pictures []Picture, notes ...string) string {
	body := &svg{y: margin + line, width: pageWidth}
	body.text(margin, body.y, "h", title)
	body.y += pad
	for i := range pictures {
		body.picture(&pictures[i])
	}
	for _, note := range notes {
		body.y += line
		body.text(margin, body.y, "t", note)
	}
	height := body.y + margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="12">
<title>%s</title>
%s<rect class="p" width="%d" height="%d" fill="%s"/>
%s</svg>
`, body.width, height, body.width, height, escape(title), style(), body.width, height, lightPage, body.String())
}

// style returns a style sheet for readers who prefer a dark background.
func style() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<style>@media (prefers-color-scheme: dark){.p{fill:%s}.h,.t{fill:%s}.b{stroke:%s}", darkPage, darkInk, darkLine)
	light, dark := colours()
	for k := range kinds {
		if light[k] != dark[k] {
			fmt.Fprintf(&b, ".k%d{fill:%s;stroke:%s}.i%d{fill:%s}", k, dark[k].fill, darkLine, k, dark[k].ink)
		}
	}
	b.WriteString("}</style>\n")
	return b.String()
}

// text writes one line that begins at x, with its baseline at y.
func (s *svg) text(x, y int, class, text string) {
	weight := ""
	if class == "h" {
		weight = ` font-weight="bold"`
	}
	if short, cut := shortened(text); cut {
		fmt.Fprintf(&s.Builder, `<text class=%q x="%d" y="%d" fill="%s"%s><title>%s</title>%s</text>`+"\n", class, x, y, lightInk, weight, escape(text), escape(short))
		return
	}
	fmt.Fprintf(&s.Builder, `<text class=%q x="%d" y="%d" fill="%s"%s>%s</text>`+"\n", class, x, y, lightInk, weight, escape(text))
}

// shortened cuts a text that is too long for the page.
func shortened(text string) (string, bool) {
	if utf8.RuneCountInString(text) <= longestName {
		return text, false
	}
	return string([]rune(text)[:longestName-1]) + "…", true
}

// picture draws one machine and its legend below the present content.
func (s *svg) picture(p *Picture) {
	if p.Name != "" {
		s.y += line
		s.text(margin, s.y, "h", p.Name)
		s.y += pad
	}
	seen := map[Kind]bool{}
	for _, block := range Layout(p.Machine) {
		s.block(p, block, seen)
	}
	s.legend(p, seen)
}

// block draws one NUMA node, with as many domains side by side as fit.
func (s *svg) block(p *Picture, b Block, seen map[Kind]bool) {
	top := s.y
	title := b.Title
	if b.Sockets != "" {
		title += ", " + b.Sockets
	}
	s.text(margin+pad, top+line, "t", title)
	x, y, lowest := margin+pad, top+line+pad, 0
	for _, domain := range b.Domains {
		width, height := extent(domain)
		if right := pageWidth - margin - pad; x > margin+pad && x+width > right {
			x, y, lowest = margin+pad, y+lowest+boxGap, 0
		}
		s.domain(p, domain, x, y, seen)
		x, lowest = x+width+boxGap, max(lowest, height)
		s.width = max(s.width, x+pad+margin)
	}
	s.y = y + lowest + pad
	s.box(margin, top+4, max(pageWidth-2*margin, s.width-2*margin), s.y-top-4)
	s.y += boxGap
}

func (s *svg) box(x, y, width, height int) {
	fmt.Fprintf(&s.Builder, `<rect class="b" x="%d" y="%d" width="%d" height="%d" rx="4" fill="none" stroke="%s"/>`+"\n", x, y, width, height, lightLine)
}

// coreWidth returns the width of the widest core of a domain.
func coreWidth(d Domain) int {
	threads := 1
	for _, core := range d.Cores {
		threads = max(threads, core.CPUs.Size())
	}
	return threads*cell + coreGap
}

// perLine returns how many cores of a domain are drawn side by side.
func perLine(d Domain) int {
	return min(len(d.Cores), max(1, (pageWidth-2*margin-4*pad)/coreWidth(d)))
}

// extent returns the size of a domain's box.
func extent(d Domain) (width, height int) {
	lines := (len(d.Cores) + perLine(d) - 1) / perLine(d)
	return max(perLine(d)*coreWidth(d)+2*pad-coreGap, 60), line + lines*(cell+coreGap) + pad
}

func (s *svg) domain(p *Picture, d Domain, x, y int, seen map[Kind]bool) {
	width, height := extent(d)
	s.box(x, y, width, height)
	s.text(x+pad, y+line-4, "t", d.Title)
	for i, core := range d.Cores {
		s.core(p, core, x+pad+i%perLine(d)*coreWidth(d), y+line+i/perLine(d)*(cell+coreGap), seen)
	}
}

func (s *svg) core(p *Picture, core topology.Core, x, y int, seen map[Kind]bool) {
	for cpu := range core.CPUs.All() {
		mark := p.Mark(cpu)
		seen[mark.Kind] = true
		label := string(mark.Sign())
		if p.Numbered {
			label = strconv.Itoa(cpu)
		}
		about := mark.Kind.Word()
		if mark.Kind == Held {
			about = p.holder(mark.Holder)
		}
		if about != "" {
			about = ": " + about
		}
		fmt.Fprintf(&s.Builder, "<g><title>CPU %d, core %d%s</title>", cpu, core.ID, escape(about))
		s.cell(mark, label, x, y)
		s.WriteString("</g>\n")
		x += cell
	}
}

func (p *Picture) holder(i int) string {
	if i < len(p.Holders) {
		return p.Holders[i]
	}
	return Taken.Word()
}

// cell draws one thread.
func (s *svg) cell(m Mark, label string, x, y int) {
	light, _ := colours()
	c := light[m.Kind]
	if m.Kind == Held {
		c.fill, c.ink = HolderColours(m.Holder)
	}
	dash := ""
	if m.Kind == Empty {
		dash = ` stroke-dasharray="3 2"`
	}
	size := ""
	if len(label) > 2 {
		size = ` font-size="10"`
	}
	fmt.Fprintf(&s.Builder, `<rect class="k%d" x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="%s"%s/><text class="i%d" x="%d" y="%d" text-anchor="middle" fill="%s"%s>%s</text>`,
		m.Kind, x, y, cell, cell, c.fill, lightLine, dash, m.Kind, x+cell/2, y+cell-8, c.ink, size, escape(label))
}

// legend explains the signs that were drawn.
func (s *svg) legend(p *Picture, seen map[Kind]bool) {
	x := margin
	for k := range kinds {
		if !seen[k] || k.Word() == "" {
			continue
		}
		label := string(Mark{Kind: k}.Sign())
		if p.Numbered {
			label = " "
		}
		s.cell(Mark{Kind: k}, label, x, s.y)
		s.WriteByte('\n')
		s.text(x+cell+pad, s.y+cell-8, "t", k.Word())
		x += cell + 2*pad + 8*len(k.Word()) + margin
	}
	if x > margin {
		s.y += cell + coreGap
	}
	for i, name := range p.Holders {
		s.cell(Mark{Kind: Held, Holder: i}, string(Mark{Kind: Held, Holder: i}.Sign()), margin, s.y)
		s.WriteByte('\n')
		s.text(margin+cell+pad, s.y+cell-8, "t", name)
		s.y += cell + coreGap
	}
	s.y += pad
}

// escape makes a text safe between tags and in an attribute. Characters that XML does not allow become the replacement
// character.
func escape(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF {
			return unicode.ReplacementChar
		}
		return r
	}, text))
}
