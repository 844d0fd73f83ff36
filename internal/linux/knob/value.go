package knob

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// ErrValue says that a knob never accepts a value. The text says which values the knob accepts.
var ErrValue = errors.New("no value of this knob")

// Value is a desired value. For CPUs, only the text is known without a profile.
type Value struct {
	// Text is the value as users write it, in one form.
	Text string
	// N is a number, or a duration in nanoseconds.
	N int64
	// Word is the text of a word in the file.
	Word string
}

// Parse reads a value as users write it. The error is an ErrValue that says which values are allowed.
func (k Knob) Parse(text string) (Value, error) {
	if w, is := k.word(text); is {
		return Value{Text: w.Text, Word: w.File}, nil
	}
	switch k.Unit {
	case Duration:
		return k.duration(text)
	case Count:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < k.Low || n > k.High {
			return Value{}, k.refuse()
		}
		return Value{Text: strconv.FormatInt(n, 10), N: n}, nil
	case Choice:
		if k.Words != nil || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789_-+") != "" || text == "" {
			return Value{}, k.refuse()
		}
		return Value{Text: text, Word: text}, nil
	case CPUs, Text:
		if strings.TrimSpace(text) == "" || strings.ContainsAny(text, "\n\r\x00") {
			return Value{}, k.refuse()
		}
	}
	words := strings.Join(strings.Fields(text), " ")
	return Value{Text: words, Word: words}, nil
}

// word finds a fixed word. YAML reads on and off as true and false.
func (k Knob) word(text string) (Word, bool) {
	switch text {
	case "true":
		text = "on"
	case "false":
		text = "off"
	}
	i := slices.IndexFunc(k.Words, func(w Word) bool { return w.Text == text })
	if i < 0 {
		return Word{}, false
	}
	return k.Words[i], true
}

func (k Knob) duration(text string) (Value, error) {
	d, err := time.ParseDuration(text)
	n := int64(d)
	if err != nil || n < k.Low || n > k.High || k.Step > 0 && n%k.Step != 0 {
		return Value{}, k.refuse()
	}
	return Value{Text: Span(n), N: n}, nil
}

func (k Knob) refuse() error { return fmt.Errorf("%w: %s", ErrValue, k.Range()) }

// Range describes the values that the knob accepts.
func (k Knob) Range() string {
	var words []string
	switch k.Unit {
	case Duration:
		text := "a duration of " + Span(k.Low) + " to " + Span(k.High)
		if k.Step > 0 {
			text += " in steps of " + Span(k.Step)
		}
		words = append(words, text)
	case Count:
		words = append(words, fmt.Sprintf("a number of %d to %d", k.Low, k.High))
	case CPUs:
		words = append(words, "the name of a set in spec.cpus or a CPU list such as 0-3")
	case Text:
		words = append(words, "what the kernel takes, on one line")
	case Choice:
		if k.Words == nil {
			words = append(words, "one of the words that the host's file has")
		}
	}
	for _, w := range k.Words {
		words = append(words, w.Text)
	}
	return strings.Join(words, ", ")
}

// Written returns the text for a value in the file of a place. The text of CPUs must be a list.
func (k Knob) Written(p Place, v Value) string {
	switch {
	case v.Word != "" && k.Unit != CPUs:
		return v.Word
	case k.Unit == CPUs:
		if set, err := cpuset.Parse(v.Text); err == nil && p.Mask {
			return set.Mask()
		}
		return v.Text
	}
	return strconv.FormatInt(v.N/max(p.Scale, 1), 10)
}

// read converts the text of a file to the words of users. It returns text that it does not understand without
// conversion.
func (k Knob) read(p Place, text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if k.Unit == Choice {
		text, _ = choices(text)
	}
	for _, w := range k.Words {
		if w.File == text {
			return w.Text
		}
	}
	switch k.Unit {
	case Duration:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < int64(1)<<62/max(p.Scale, 1) {
			return Span(n * max(p.Scale, 1))
		}
	case CPUs:
		parse := cpuset.Parse
		if p.Mask {
			parse = cpuset.ParseMask
		}
		if set, err := parse(text); err == nil {
			return set.String()
		}
	case Count, Choice, Text:
	}
	return text
}

// choices reads a file that lists words and marks one with brackets or parentheses.
func choices(text string) (chosen string, all []string) {
	chosen = text
	for word := range strings.FieldsSeq(text) {
		if bare := strings.Trim(word, "[]()"); bare != word {
			chosen, word = bare, bare
		}
		all = append(all, word)
	}
	return chosen, all
}

// Span formats nanoseconds as a duration that Parse reads.
func Span(n int64) string {
	return strings.ReplaceAll(time.Duration(n).String(), "µ", "u")
}
