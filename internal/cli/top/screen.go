package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cli/picture"
	"github.com/berth-project/berth/internal/value/table"
	"github.com/berth-project/berth/internal/value/unit"
)

// page is the page below the header.
type page int

const (
	pageList page = iota
	pageWorkload
	pageMachine
	pageEvents
	pageNode
)

// noWorkload is for a host that manages nothing yet.
const noWorkload = "no workload: describe one in a file in workloadDir of the agent's file, or give a pod its annotation (berth status)"

// screen is a view with the user's selection.
type screen struct {
	// now is never nil; before is the previous view, nil at first.
	now, before *view.View
	err         error // of the last read
	canvas

	page     page
	order    order
	filter   string
	typing   bool // the user types the filter
	loads    bool // show loads instead of holders
	selected string
	scroll   int
	past     remembered
	made     made
}

// made is what a frame takes from the frames before.
type made struct {
	lines []string // about the selected workload, or about the node
	rows  listing
	cells map[cell]string
}

// Widths of the columns of the list; the name has the remaining width.
const (
	stateWidth, cpusWidth, quotaWidth, barWidth, shareWidth = 9, 11, 9, 8, 9
	rest                                                    = 4 + stateWidth + cpusWidth + quotaWidth + barWidth + 2*shareWidth + 6
	narrowestName                                           = 12
)

const keys = "q quit  up/down  enter why  / filter  s sort  l load  m CPUs  e events  n node"

// frame returns all lines of the terminal.
func (s *screen) frame() string {
	head := s.header()
	space := s.height - len(head) - 1
	var body []string
	if s.page == pageList {
		body = s.list(space)
	} else if body = s.body(); s.scroll < len(body) {
		body = body[s.scroll:]
	}
	last := s.paint(lipgloss.NewStyle().Faint(true), keys)
	switch {
	case s.typing:
		last = "filter: " + s.filter + "_  (enter keeps it, esc clears it)"
	case s.page != pageList:
		last = s.paint(lipgloss.NewStyle().Faint(true), "q quit  up/down scroll  esc back")
	}
	return s.frameOf(head, body, last)
}

// whole returns the machine, all workloads and all problems.
func (s *screen) whole() string {
	all := append(append(s.header(), s.blocks()...), "")
	all = append(all, s.heading())
	rows := s.rows()
	for _, r := range rows {
		all = append(all, s.line(r, false))
	}
	if len(rows) == 0 {
		all = append(all, s.none()...)
	}
	for _, p := range s.now.Problems {
		all = append(all, "problem: "+clean(p))
	}
	for i := range all {
		all[i] = strings.TrimRight(all[i], " ")
	}
	return strings.Join(all, "\n") + "\n"
}

// body returns all lines of the current page.
func (s *screen) body() []string {
	switch s.page {
	case pageMachine:
		return s.blocks()
	case pageEvents:
		return s.events()
	case pageNode:
		return s.reports()
	default:
		return s.about(s.selected)
	}
}

// header shows the agent's version, a summary, and what is wrong.
func (s *screen) header() []string {
	v := s.now
	text := fmt.Sprintf("berth top %s  %s  %s by %s  load %s",
		clean(v.Version), v.At.Format("15:04:05"), unit.Count(len(v.Workloads), "workload"), s.order, percent(meanLoad(v)))
	if n := len(v.Problems); n > 0 {
		text += fmt.Sprintf("  problems: %d", n)
	}
	if s.filter != "" && !s.typing {
		text += "  filter: " + s.filter
	}
	lines := []string{s.paint(lipgloss.NewStyle().Bold(true), text), s.legend()}
	if s.err != nil {
		lines = append(lines, s.wrap("this is old, of "+v.At.Format(time.TimeOnly)+": "+s.err.Error())...)
	}
	if v.Obstacle != "" {
		lines = append(lines, "CPU sets: left alone: "+clean(v.Obstacle))
	}
	return lines
}

// meanLoad returns the mean of the known CPU loads, -1 if none is known.
func meanLoad(v *view.View) float64 {
	sum, n := 0.0, 0
	for _, c := range v.CPUs {
		if c.Load >= 0 {
			sum, n = sum+c.Load, n+1
		}
	}
	if n == 0 {
		return -1
	}
	return sum / float64(n)
}

// list returns the machine in at most half of the lines, and the workloads around the selected one. With few lines the
// selected workload matters more than the machine and the heading.
func (s *screen) list(space int) []string {
	const forMachine, forHeading = 3, 2
	var lines []string
	if space >= forMachine {
		lines = s.blocks()
		if most := max(0, space/2-1); len(lines) > most {
			lines = append(lines[:max(0, most-1)], "  (m shows all CPUs)")
		}
	}
	if space >= forHeading {
		lines = append(lines, s.paint(lipgloss.NewStyle().Bold(true), s.heading()))
	}
	selected, rows := s.found()
	if len(rows) == 0 {
		return append(lines, s.none()...)
	}
	room := max(0, space-len(lines))
	first := max(0, min(selected-room/2, len(rows)-room))
	for i := first; i < min(first+room, len(rows)); i++ {
		lines = append(lines, s.line(rows[i], i == selected))
	}
	return lines
}

// none says why no workload is listed, and what to do.
func (s *screen) none() []string {
	if s.filter != "" {
		return []string{"no workload passes the filter"}
	}
	return s.wrap(noWorkload)
}

func (s *screen) nameWidth() int { return max(narrowestName, s.width-rest) }

func (s *screen) heading() string {
	return fmt.Sprintf("    %-*s %-*s %-*s %-*s %-*s %*s %*s", s.nameWidth(), "WORKLOAD", stateWidth, "STATE", cpusWidth, "CPUS",
		quotaWidth, "NOW/LIMIT", barWidth, "CREDIT", shareWidth, "THROTTLED", shareWidth, "ABOVE")
}

// line formats one workload.
func (s *screen) line(r row, selected bool) string {
	sign, cursor := " ", " "
	if r.holder >= 0 {
		sign = string(picture.Mark{Kind: picture.Held, Holder: r.holder}.Sign())
	}
	if selected {
		cursor = ">"
	}
	text := fmt.Sprintf("%s %s %-*s %-*s %-*s %-*s %-*s %*s %*s", cursor, sign, s.nameWidth(), tail(clean(r.name), s.nameWidth()),
		stateWidth, start(clean(r.state), stateWidth), cpusWidth, start(r.cpus, cpusWidth), quotaWidth, start(r.quota, quotaWidth),
		barWidth, s.credit(&r), shareWidth, percent(r.throttled), shareWidth, percent(r.above))
	if selected {
		return s.paint(lipgloss.NewStyle().Reverse(true), text)
	}
	return text
}

// credit shows the credit of a workload, or that burst would help it.
func (s *screen) credit(r *row) string {
	if r.helps {
		return "burst?"
	}
	return s.bar(r.credit)
}

// bar draws a share as a bar, "-" for none.
func (s *screen) bar(share float64) string {
	if share > 1 {
		return "-"
	}
	full, empty := "█", "░"
	if s.plain {
		full, empty = "#", "."
	}
	n := int(share*barWidth + 0.5)
	return strings.Repeat(full, n) + strings.Repeat(empty, barWidth-n)
}

// about returns all that is known about one workload.
func (s *screen) about(name string) []string {
	lines := s.wrap(s.made.lines...)
	for i := range s.now.Workloads {
		if w := &s.now.Workloads[i]; w.Name == name {
			lines = append(append(lines, s.what(w)...), s.curves()...)
		}
	}
	for _, c := range s.now.Changes {
		if c.Workload == name {
			lines = append(lines, s.wrap(fmt.Sprintf("%s of %s: %q, originally %q, by %s: %s", c.Knob, c.Object, c.Written, c.Original, c.Owner, c.Why))...)
		}
	}
	for _, e := range s.now.Events {
		if e.About != "" && (e.About == name || strings.HasPrefix(name, e.About+"/")) {
			lines = append(lines, s.wrap(eventText(e))...)
		}
	}
	return append(s.wrap(name), lines...)
}

// what describes the CPUs of a workload and its throttling.
func (s *screen) what(w *view.Workload) []string {
	var lines []string
	if w.CPUs != nil {
		lines = s.holding(w.CPUs)
	}
	if w.Throttling != nil {
		lines = append(lines, s.wrap(throttlingText(w.Throttling))...)
	}
	return lines
}

// holding describes a workload's CPUs and the reasons, except reasons that the explanation already has.
func (s *screen) holding(h *capability.Holding) []string {
	var lines []string
	explained := func(text string) bool {
		return slices.ContainsFunc(s.made.lines, func(line string) bool { return strings.Contains(line, text) })
	}
	if h.Why != "" && !explained(h.Why) {
		lines = append(lines, s.wrap(fmt.Sprintf("CPUs %s: %s", cmp.Or(h.CPUs.String(), "as before"), h.Why))...)
	}
	if h.Refused != "" && !explained(h.Refused) {
		lines = append(lines, s.wrap("no exclusive CPUs: "+h.Refused)...)
	}
	if !h.Mems.IsEmpty() {
		lines = append(lines, "memory nodes "+h.Mems.String())
	}
	return lines
}

// events lists the problems, then the events with the newest first.
func (s *screen) events() []string {
	var lines []string
	for _, p := range s.now.Problems {
		lines = append(lines, s.wrap("problem: "+p)...)
	}
	for _, e := range slices.Backward(s.now.Events) {
		lines = append(lines, s.wrap(eventText(e))...)
	}
	if lines == nil {
		return []string{"no event yet"}
	}
	return lines
}

// reports lists what the capabilities report about the node.
func (s *screen) reports() []string {
	if len(s.made.lines) == 0 {
		return []string{"no capability reports anything about the node"}
	}
	return s.wrap(s.made.lines...)
}

// throttlingText describes the throttling of a workload that did not ask for burst.
func throttlingText(t *view.Throttling) string {
	text := fmt.Sprintf("throttled in %d of %d periods in %.0f s, and used %.3g of %.3g CPUs", t.Throttled, t.Periods, t.Seconds, t.Used, t.Limit)
	if t.BurstHelps {
		text += ": burst would help"
	}
	return text
}

func eventText(e view.Event) string {
	about := ""
	if e.About != "" {
		about = " " + e.About
	}
	return fmt.Sprintf("%s %s%s: %s", e.At.Format("15:04:05"), e.Reason, about, e.Text)
}

// clean makes a text safe on a terminal, so that a user's text cannot move the cursor.
func clean(text string) string { return table.Clean(text) }

// start cuts a text at its end to fit, tail at its start.
func start(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "~"
	}
	return text
}

func tail(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return "~" + string(r[len(r)-most+1:])
	}
	return text
}
