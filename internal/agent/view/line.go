package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// Line returns the Delta as one line of a stream: its JSON, byte for byte as encoding/json writes it. encoding/json
// scans the result of a Marshaler again for each enclosing object, which takes most of its time here. On a busy node
// each line has a Status, a time and a quota of every workload.
func (d Delta) Line() ([]byte, error) {
	l := line{text: make([]byte, 0, 256+64*len(d.CPUs)+768*len(d.Workloads)+384*len(d.Changes))}
	l.begin()
	l.key("set")
	l.value(d.Set)
	list(&l, "cpus", d.CPUs, (*line).cpu)
	list(&l, "workloads", d.Workloads, (*line).workload)
	list(&l, "changes", d.Changes, (*line).change)
	list(&l, "nodes", d.Nodes, func(l *line, n *Node) { l.value(n) })
	return l.rest(&d)
}

// rest ends the line of a Delta.
func (l *line) rest(d *Delta) ([]byte, error) {
	if d.Gone != nil {
		l.key("gone")
		l.value(d.Gone)
	}
	if len(d.Events) > 0 {
		l.key("events")
		l.value(d.Events)
	}
	l.end()
	l.text = append(l.text, '\n')
	if l.err != nil {
		return nil, fmt.Errorf("encode what changed: %w", l.err)
	}
	return l.text, nil
}

// line is JSON under construction, and its first error.
type line struct {
	text []byte
	err  error
}

func (l *line) begin() { l.text = append(l.text, '{') }
func (l *line) end()   { l.text = append(l.text, '}') }

// key begins the next field of an object.
func (l *line) key(name string) {
	if l.text[len(l.text)-1] != '{' {
		l.text = append(l.text, ',')
	}
	l.text = append(l.text, '"')
	l.text = append(l.text, name...)
	l.text = append(l.text, '"', ':')
}

// list writes a list; it omits an empty list.
func list[T any](l *line, key string, all []T, one func(*line, *T)) {
	if len(all) == 0 {
		return
	}
	l.key(key)
	for i := range all {
		l.text = append(l.text, "[,"[min(i, 1)])
		one(l, &all[i])
	}
	l.text = append(l.text, ']')
}

// value writes a value as encoding/json does.
func (l *line) value(v any) {
	text, err := json.Marshal(v)
	l.note(err)
	l.text = append(l.text, text...)
}

func (l *line) note(err error) {
	if l.err == nil {
		l.err = err
	}
}

// text writes a string of any type. A string that needs no escape is written directly.
func text[S ~string](l *line, s S) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			l.value(string(s))
			return
		}
	}
	l.text = append(l.text, '"')
	l.text = append(l.text, s...)
	l.text = append(l.text, '"')
}

// word writes a field with a text; some omits the field if the text is empty.
func word[S ~string](l *line, key string, s S) {
	l.key(key)
	text(l, s)
}

func some[S ~string](l *line, key string, s S) {
	if s != "" {
		word(l, key, s)
	}
}

// number writes a field with a number. encoding/json writes very small and very large numbers with an exponent, and
// refuses numbers that JSON does not have.
func (l *line) number(key string, n float64) {
	l.key(key)
	if size := math.Abs(n); n != 0 && !(size >= 1e-6 && size < 1e21) {
		l.value(n)
		return
	}
	l.text = strconv.AppendFloat(l.text, n, 'f', -1, 64)
}

func (l *line) count(key string, n uint64) {
	l.key(key)
	l.text = strconv.AppendUint(l.text, n, 10)
}

func (l *line) whole(key string, n int) {
	l.key(key)
	l.text = strconv.AppendInt(l.text, int64(n), 10)
}

func (l *line) flag(key string, is bool) {
	l.key(key)
	l.text = strconv.AppendBool(l.text, is)
}

func (l *line) time(key string, t time.Time) {
	l.key(key)
	l.text = append(l.text, '"')
	with, err := t.AppendText(l.text)
	if err != nil {
		l.note(err)
		return
	}
	l.text = append(with, '"')
}

func (l *line) cpu(c *CPU) {
	l.begin()
	l.whole("id", c.ID)
	some(l, "class", c.Class)
	some(l, "holder", c.Holder)
	l.number("load", c.Load)
	l.end()
}

func (l *line) change(c *Change) {
	l.begin()
	word(l, "object", c.Object)
	word(l, "knob", c.Knob)
	word(l, "original", c.Original)
	word(l, "written", c.Written)
	word(l, "owner", c.Owner)
	some(l, "workload", c.Workload)
	word(l, "why", c.Why)
	l.time("since", c.Since)
	l.whole("writes", c.Writes)
	l.end()
}

func (l *line) workload(w *Workload) {
	l.begin()
	word(l, "name", w.Name)
	if w.Status != nil {
		l.key("status")
		l.status(w.Status)
	}
	if w.CPUs != nil {
		l.key("cpus")
		l.holding(w)
	}
	if w.Quota != nil {
		l.key("quota")
		l.quota(w)
	}
	if w.Throttling != nil {
		l.key("throttling")
		l.throttling(w.Throttling)
	}
	l.end()
}

func (l *line) status(s *Status) {
	l.begin()
	word(l, "name", s.Name)
	some(l, "file", s.File)
	some(l, "group", s.Group)
	word(l, "state", s.State)
	some(l, "reason", s.Reason)
	l.time("since", s.Since)
	word(l, "policy", s.Policy)
	some(l, "policySource", s.PolicySource)
	if len(s.Warnings) > 0 {
		l.key("warnings")
		l.value(s.Warnings)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sections)) {
		l.text = append(l.text, ',')
		text(l, name)
		l.text = append(l.text, ':')
		l.value(s.Sections[name])
	}
	l.end()
}

func (l *line) holding(w *Workload) {
	h := w.CPUs
	l.begin()
	word(l, "cpus", h.CPUs.String())
	some(l, "borrowed", h.Borrowed.String())
	some(l, "mems", h.Mems.String())
	l.flag("exclusive", h.Exclusive)
	some(l, "why", h.Why)
	some(l, "refused", h.Refused)
	l.end()
}

func (l *line) quota(w *Workload) {
	q := w.Quota
	l.begin()
	l.number("limitCPUs", q.Limit)
	l.number("nowCPUs", q.Now)
	l.number("creditCPUSeconds", q.Credit)
	l.number("capacityCPUSeconds", q.Capacity)
	l.count("periods", q.Periods)
	l.count("throttledPeriods", q.Throttled)
	l.count("throttledPeriodsAbove", q.Above)
	l.end()
}

func (l *line) throttling(t *Throttling) {
	l.begin()
	l.number("limitCPUs", t.Limit)
	l.number("usedCPUs", t.Used)
	l.number("seconds", t.Seconds)
	l.count("periods", t.Periods)
	l.count("throttledPeriods", t.Throttled)
	l.flag("burstWouldHelp", t.BurstHelps)
	l.end()
}
