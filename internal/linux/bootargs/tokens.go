package bootargs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrToken is an argument that the files of boot loaders cannot contain literally.
var ErrToken = errors.New("no boot argument")

// allowedToken describes the allowed tokens.
const allowedToken = "letters, digits and _ . , : = / @ + % -, beginning with a letter, each name once"

// Check rejects arguments that a loader's script would misread, or that the kernel would read as two.
func Check(tokens []string) error {
	seen := map[string]bool{}
	for _, token := range tokens {
		if token == "" || !isLetter(rune(token[0])) || strings.ContainsFunc(token, isForeign) {
			return fmt.Errorf("%w: %q: allowed: %s", ErrToken, token, allowedToken)
		}
		name := nameOf(token)
		if seen[name] && !repeats(name) {
			return fmt.Errorf("%w: %q: a second %s: allowed: %s", ErrToken, token, name, allowedToken)
		}
		seen[name] = true
	}
	return nil
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func isForeign(r rune) bool {
	return !isLetter(r) && (r < '0' || r > '9') && !strings.ContainsRune("_.,:=/@+%-", r)
}

// nameOf returns the name of an argument as the kernel compares it: hyphen and underscore are equal (parameq in
// kernel/params.c).
func nameOf(token string) string {
	name, _, _ := strings.Cut(strings.Trim(token, `"`), "=")
	return strings.ReplaceAll(name, "-", "_")
}

// repeats reports whether the kernel uses every occurrence of an argument.
func repeats(name string) bool {
	return slices.Contains([]string{"console", "earlycon", "hugepages", "hugepagesz", "memmap", "module_blacklist", "rd.driver.blacklist", "rd.luks.uuid", "rd.lvm.lv"}, name)
}

// rivals reports whether the kernel uses only one of two different tokens.
func rivals(a, b string) bool { return a != b && nameOf(a) == nameOf(b) && !repeats(nameOf(a)) }

// span is the place of a token on a line.
type span struct{ from, to int }

// spans divides a line as the kernel does (next_arg in lib/cmdline.c): at space outside double quotes.
func spans(line string) []span {
	var all []span
	start, quoted := -1, false
	for i := range len(line) {
		c := line[i]
		if isSpace(c) && !quoted {
			if start >= 0 {
				all = append(all, span{start, i})
			}
			start = -1
			continue
		}
		if start < 0 {
			start = i
		}
		if c == '"' {
			quoted = !quoted
		}
	}
	if start >= 0 {
		all = append(all, span{start, len(line)})
	}
	return all
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// Tokens returns the kernel's arguments on a line, without those of init.
func Tokens(line string) []string {
	var tokens []string
	for _, s := range spans(line) {
		if line[s.from:s.to] == "--" {
			break
		}
		tokens = append(tokens, line[s.from:s.to])
	}
	return tokens
}

// Change is the change of the tokens of some lines.
type Change struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
}

// without removes the tokens that match from a line, each with the space before it.
func without(line string, match func(token string) bool) (string, []string) {
	var b strings.Builder
	var cut []string
	done := 0
	for _, s := range spans(line) {
		token := line[s.from:s.to]
		if token == "--" {
			break
		}
		if !match(token) {
			continue
		}
		cut = append(cut, token)
		from := s.from
		for from > done && isSpace(line[from-1]) {
			from--
		}
		b.WriteString(line[done:from])
		done = s.to
	}
	b.WriteString(line[done:])
	return b.String(), cut
}

// with adds tokens after the last token of a line, before "--".
func with(line string, tokens []string) string {
	if len(tokens) == 0 {
		return line
	}
	at := 0
	for _, s := range spans(line) {
		if line[s.from:s.to] == "--" {
			break
		}
		at = s.to
	}
	text := strings.Join(tokens, " ")
	if at > 0 {
		return line[:at] + " " + text + line[at:]
	}
	if line == "" || isSpace(line[0]) {
		return text + line
	}
	return text + " " + line
}

// set changes lines that together are one list of arguments, so that they have the tokens.
func set(lines, want []string) Change {
	var c Change
	var standing []string
	for i, line := range lines {
		var cut []string
		lines[i], cut = without(line, func(token string) bool {
			return slices.ContainsFunc(want, func(w string) bool {
				return rivals(w, token)
			})
		})
		c.Removed = append(c.Removed, cut...)
		standing = append(standing, Tokens(lines[i])...)
	}
	for _, w := range want {
		if !slices.Contains(standing, w) {
			c.Added = append(c.Added, w)
		}
	}
	add(lines, c.Added)
	return c
}

// add adds tokens to the line with "--", else to the last line.
func add(lines, tokens []string) {
	for i, line := range lines {
		if i == len(lines)-1 || slices.ContainsFunc(spans(line), func(s span) bool { return line[s.from:s.to] == "--" }) {
			lines[i] = with(line, tokens)
			return
		}
	}
}

// unset reverts a change token by token.
func unset(lines []string, c Change) {
	left := slices.Clone(c.Added)
	var standing []string
	for i, line := range lines {
		lines[i], _ = without(line, func(token string) bool {
			at := slices.Index(left, token)
			if at >= 0 {
				left = slices.Delete(left, at, at+1)
			}
			return at >= 0
		})
		standing = append(standing, Tokens(lines[i])...)
	}
	var back []string
	for _, token := range c.Removed {
		same := func(other string) bool { return nameOf(other) == nameOf(token) }
		if !slices.ContainsFunc(standing, same) || repeats(nameOf(token)) && !slices.Contains(standing, token) {
			back = append(back, token)
		}
	}
	add(lines, back)
}
