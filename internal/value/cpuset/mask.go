package cpuset

import (
	"strconv"
	"strings"
)

const (
	maskForm = "CPU mask"
	// The kernel prints masks in words of 32 bits on every architecture.
	maskWordBits   = 32
	maskWordDigits = maskWordBits / 4
	maskWords      = Max / maskWordBits
)

// ParseMask reads the kernel's mask format: words of 32 bits as one to eight hexadecimal digits, highest word first,
// separated by commas, such as "ff,00000000,ffffffff". A kernel built for more than Max CPUs prints more words; they
// must be zero. The empty string is the empty set. ParseMask ignores the same bytes at the end as Parse, and its errors
// are *SyntaxError.
func ParseMask(mask string) (Set, error) {
	p := parser{form: maskForm, input: mask, text: trimEnd(mask)}
	if p.text == "" {
		return Set{}, nil
	}
	var s Set
	for left := strings.Count(p.text, ","); ; left-- {
		if err := p.maskWord(&s, left); err != nil {
			return Set{}, err
		}
		if p.pos == len(p.text) {
			return s, nil
		}
		if !p.take(',') {
			return Set{}, p.fail(p.pos, "a hexadecimal digit, ',' or the end")
		}
	}
}

// maskWord reads one word. Its index counts from the lowest word.
func (p *parser) maskWord(s *Set, index int) error {
	start, value := p.pos, uint64(0)
	for p.pos < len(p.text) && p.pos-start <= maskWordDigits {
		digit, ok := hexDigit(p.text[p.pos])
		if !ok {
			break
		}
		value = value<<4 | digit
		p.pos++
	}
	switch {
	case p.pos == start:
		return p.fail(start, "a word of 1 to 8 hexadecimal digits")
	case p.pos-start > maskWordDigits:
		return p.fail(start+maskWordDigits, "',' after 8 hexadecimal digits")
	case value == 0:
		return nil
	case index >= maskWords:
		return p.fail(start, "0 for CPUs above "+strconv.Itoa(Max-1))
	}
	s.bits[index/2] |= value << (uint(index) % 2 * maskWordBits)
	return nil
}

// Mask returns the set in the kernel's mask format without leading zero words or digits. The empty set is "0".
func (s Set) Mask() string {
	const digits = "0123456789abcdef"
	last, ok := s.Max()
	if !ok {
		return "0"
	}
	var b strings.Builder
	for nibble := last / 4; nibble >= 0; nibble-- {
		b.WriteByte(digits[s.bits[nibble*4/wordBits]>>(uint(nibble)*4%wordBits)&0xf])
		if nibble > 0 && nibble%maskWordDigits == 0 {
			b.WriteByte(',')
		}
	}
	return b.String()
}

func hexDigit(c byte) (uint64, bool) {
	switch {
	case isDigit(c):
		return uint64(c - '0'), true
	case c >= 'a' && c <= 'f':
		return uint64(c-'a') + 10, true
	case c >= 'A' && c <= 'F':
		return uint64(c-'A') + 10, true
	}
	return 0, false
}
