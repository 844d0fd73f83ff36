package cpuset

import (
	"math/bits"
	"strconv"
	"strings"
)

const listForm = "CPU list"

// Parse reads the kernel's list format: CPU ids and ranges separated by commas, in any order, such as "0-3,8,10-14". A
// range may have a stride: "0-31:2/4" is the first 2 of every 4 CPUs. The empty string is the empty set. Parse ignores
// newlines and NUL bytes at the very end: kernel files end with a newline, and some recordings of them with a NUL byte.
// Any other text, including spaces and ids above Max-1, is a *SyntaxError.
func Parse(list string) (Set, error) {
	p := parser{form: listForm, input: list, text: trimEnd(list)}
	if p.text == "" {
		return Set{}, nil
	}
	var s Set
	for {
		if err := p.item(&s); err != nil {
			return Set{}, err
		}
		if p.pos == len(p.text) {
			return s, nil
		}
		if !p.take(',') {
			return Set{}, p.fail(p.pos, "',' or the end")
		}
	}
}

// String returns the set in the kernel's list format, "" for the empty set.
func (s Set) String() string { return string(s.appendList(nil)) }

// Named returns the set for people: "CPU 3", "CPUs 0-3,8", or "none". A reader could mistake a bare list for a number
// of CPUs.
func (s Set) Named() string {
	switch s.Size() {
	case 0:
		return "none"
	case 1:
		return "CPU " + s.String()
	default:
		return "CPUs " + s.String()
	}
}

// MarshalText returns the list format, so that a Set is a JSON and YAML string. It never fails.
func (s Set) MarshalText() ([]byte, error) { return s.appendList([]byte{}), nil }

// UnmarshalText reads the list format as Parse does.
func (s *Set) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

func (s Set) appendList(b []byte) []byte {
	start := len(b)
	for lo := s.next(0, true); lo < Max; {
		hi := s.next(lo, false) - 1
		if len(b) > start {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(lo), 10)
		if hi > lo {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(hi), 10)
		}
		lo = s.next(hi+1, true)
	}
	return b
}

// next returns the first id >= cpu that is in the set, or that is not in the set if in is false. It returns Max if
// there is no such id.
func (s Set) next(cpu int, in bool) int {
	for cpu < Max {
		w := s.bits[cpu/wordBits]
		if !in {
			w = ^w
		}
		if w >>= uint(cpu) % wordBits; w != 0 {
			return cpu + bits.TrailingZeros64(w)
		}
		cpu = (cpu/wordBits + 1) * wordBits
	}
	return Max
}

// parser reads one text; pos is the next byte.
type parser struct {
	form  string
	input string // unchanged, for errors
	text  string // without the newlines and NUL bytes at the end
	pos   int
}

// item reads one item of the form N, N-M or N-M:USED/GROUP into s.
func (p *parser) item(s *Set) error {
	lo, err := p.number("a CPU id", 0, Max-1)
	if err != nil {
		return err
	}
	if !p.take('-') {
		s.fill(lo, lo)
		return nil
	}
	hi, err := p.number("the last CPU of the range", lo, Max-1)
	if err != nil {
		return err
	}
	if !p.take(':') {
		s.fill(lo, hi)
		return nil
	}
	return p.stride(s, lo, hi)
}

// stride reads USED/GROUP and adds the first USED of every GROUP CPUs.
func (p *parser) stride(s *Set, lo, hi int) error {
	used, err := p.number("the used part of a group", 1, Max)
	if err != nil {
		return err
	}
	if !p.take('/') {
		return p.fail(p.pos, "'/' and the size of a group")
	}
	group, err := p.number("the size of a group", used, Max)
	if err != nil {
		return err
	}
	for ; lo <= hi; lo += group {
		s.fill(lo, min(lo+used-1, hi))
	}
	return nil
}

// number reads decimal digits with a value of lo to hi.
func (p *parser) number(what string, lo, hi int) (int, error) {
	start, value := p.pos, 0
	for p.pos < len(p.text) && isDigit(p.text[p.pos]) {
		value = value*10 + int(p.text[p.pos]-'0')
		if value > hi {
			break
		}
		p.pos++
	}
	if p.pos == start && value <= hi || value < lo || value > hi {
		return 0, p.fail(start, what+", "+strconv.Itoa(lo)+" to "+strconv.Itoa(hi))
	}
	return value, nil
}

// take consumes c if c is the next byte, and reports whether it did.
func (p *parser) take(c byte) bool {
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *parser) fail(offset int, want string) error {
	return &SyntaxError{Form: p.form, Input: p.input, Offset: offset, Want: want}
}

func trimEnd(s string) string { return strings.TrimRight(s, "\n\x00") }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
