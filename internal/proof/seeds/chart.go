package seeds

import (
	"fmt"
	"html"
	"strings"

	"github.com/berth-project/berth/internal/proof/load"
)

// The layout of the chart, in pixels.
const (
	chartWidth = 860
	labelWidth = 330
	lineHeight = 22
	// mostRatio is the right end of the scale: larger ratios reach it.
	mostRatio = 2.0
)

// Chart draws all ratios as SVG: a bar from 1 to each ratio, its interval, and a tick at the printed ratio.
func Chart(r *Report) string {
	var lines strings.Builder
	y := 2 * lineHeight
	for _, m := range r.Experiments {
		fmt.Fprintf(&lines, `<text class="name" x="8" y="%d">%s</text>`+"\n", y+15, html.EscapeString(m.Name+": "+m.Document))
		y += lineHeight
		if m.Why != "" {
			fmt.Fprintf(&lines, `<text x="20" y="%d">%s</text>`+"\n", y+15, html.EscapeString(shortened(m.here())))
			y += lineHeight
		}
		for _, result := range m.Results {
			y = bars(&lines, y, m.Treated, result)
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="Ratios of the documents' experiments">
<style>
svg { font: 13px sans-serif; background: #fff; fill: #222; }
.name { font-weight: bold; }
.bar { fill: #0072b2; }
.interval { stroke: #222; stroke-width: 2; }
.printed { stroke: #d55e00; stroke-width: 4; }
.axis { stroke: #ccc; }
.one { stroke: #888; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
svg { background: #111; fill: #eee; }
.bar { fill: #56b4e9; }
.interval { stroke: #eee; }
}
</style>
<text x="8" y="15">Ratio to the first arm: bar and 95 %% interval here, orange tick as printed; left of the line is less</text>
%s%s</svg>
`, chartWidth, y+lineHeight, axis(y), lines.String())
}

// axis draws the scale over a chart that ends at y.
func axis(y int) string {
	var b strings.Builder
	for _, ratio := range []float64{0, 0.5, 1, 1.5, mostRatio} {
		class := "axis"
		if ratio == 1 {
			class = "one"
		}
		fmt.Fprintf(&b, `<text text-anchor="middle" x="%.1f" y="%d">%g</text><line class="%s" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n",
			at(ratio), lineHeight+13, ratio, class, at(ratio), lineHeight+18, at(ratio), y)
	}
	return b.String()
}

// shortened is a text that fits into the chart.
func shortened(text string) string {
	const most = 115
	if len(text) <= most {
		return text
	}
	return text[:most] + " ..."
}

// bars draws the ratios of a figure from y on, and returns where they end.
func bars(w *strings.Builder, y int, treated string, r Result) int {
	for _, arm := range r.Arms {
		if arm.Ratio == nil {
			continue
		}
		printed := 0.0
		if arm.Arm == treated {
			printed = r.After / r.Before
		}
		bar(w, y, r.Name+", "+arm.Arm, *arm.Ratio, printed)
		y += lineHeight
	}
	return y
}

// bar draws one ratio.
func bar(w *strings.Builder, y int, label string, ratio load.Ratio, printed float64) {
	left, right := min(at(1), at(ratio.Estimate)), max(at(1), at(ratio.Estimate))
	label = html.EscapeString(label)
	fmt.Fprintf(w, `<text x="20" y="%d">%s</text>`, y+15, label)
	fmt.Fprintf(w, `<rect class="bar" x="%.1f" y="%d" width="%.1f" height="10"><title>%s: %.3f (%.3f to %.3f)</title></rect>`,
		left, y+6, right-left, label, ratio.Estimate, ratio.Low, ratio.High)
	fmt.Fprintf(w, `<line class="interval" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, at(ratio.Low), y+11, at(ratio.High), y+11)
	if printed > 0 {
		fmt.Fprintf(w, `<line class="printed" x1="%.1f" y1="%d" x2="%.1f" y2="%d"><title>printed: %.3f</title></line>`, at(printed), y+3, at(printed), y+19, printed)
	}
	w.WriteString("\n")
}

// at returns the place of a ratio.
func at(ratio float64) float64 {
	const width = chartWidth - labelWidth - 20
	return labelWidth + width*min(max(ratio, 0), mostRatio)/mostRatio
}
