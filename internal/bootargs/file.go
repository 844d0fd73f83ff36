package bootargs

import (
	"slices"
	"strings"
)

// File is what becomes of one file. Its JSON can be kept for the way back.
type File struct {
	// Name is the path below the root, without a slash before it.
	Name string `json:"name"`
	// Before and After are the whole texts; Missing says that there was no file.
	Before  string `json:"before"`
	Missing bool   `json:"missing"`
	After   string `json:"after"`
	// Form is how arguments are written in it.
	Form Form `json:"form"`
	// Want are the tokens that it is to have.
	Want []string `json:"want"`
	// Changes are the tokens, by the name of the list that they are in.
	Changes map[string]Change `json:"changes"`
}

// Form names how a file has arguments.
type Form string

// The forms of files.
const (
	// FormOwn is a file of our own, which goes as a whole.
	FormOwn Form = "own"
	// FormEntry is an entry of the Boot Loader Specification.
	FormEntry Form = "entry"
	// FormLabels is extlinux.conf.
	FormLabels Form = "labels"
	// FormPlain is a file with arguments and nothing else.
	FormPlain Form = "plain"
	// FormTrial is the file of the entry that boots once: it goes as a whole, whoever changed it.
	FormTrial Form = "trial"
	// FormPart is a file of the administrator's with that entry at its end.
	FormPart Form = "part"
)

// lists returns how a form's arguments are found.
func (f Form) lists() form {
	switch f {
	case FormEntry:
		return entry
	case FormLabels:
		return labels
	case FormOwn, FormPlain, FormTrial, FormPart:
	}
	return plain
}

// Changed returns what becomes of a file of others with the tokens. For the way back it is made
// again of the text from before.
func Changed(name, text string, f Form, want []string) File {
	file := File{Name: name, Before: text, Form: f, Want: want, Changes: map[string]Change{}}
	if f == FormEntry && len(entry(split(text))) == 0 && len(want) > 0 { // it gets a line
		text += lineEnd(text) + "options\n"
	}
	file.After = edited(text, f.lists(), func(list string, values []string) {
		c := set(values, want)
		if len(c.Added)+len(c.Removed) > 0 {
			file.Changes[list] = c
		}
	})
	return file
}

// isOpen says that a list has a quote without an end: what follows it belongs to its token.
func (f File) isOpen() bool {
	if f.Form == FormOwn {
		return false
	}
	open := false
	edited(f.Before, f.Form.lists(), func(_ string, values []string) {
		for _, v := range values {
			open = open || strings.Count(v, `"`)%2 != 0
		}
	})
	return open
}

// Undo takes the change back from what the file has now; there says whether a file is left.
// A file that is as it was left becomes to the byte what it was. Of another one the tokens
// that were added go, and those that gave way come back. A file of our own that another
// program changed stays: the error-free answer is what it has now.
func (f File) Undo(now string) (text string, there bool) {
	switch {
	case now == f.After:
		return f.Before, !f.Missing
	case f.Form == FormOwn:
		return now, true
	case f.Form == FormTrial:
		return "", false
	case f.Form == FormPart:
		rest := withoutPart(now)
		return rest, rest != "" || !f.Missing
	}
	return edited(now, f.Form.lists(), func(list string, values []string) {
		if c, known := f.Changes[list]; known {
			unset(values, c)
		}
	}), true
}

// Line is one line of a file that changes.
type Line struct{ File, Now, Want string }

// Lines returns the lines that change. A file that is made has no line now.
func (f File) Lines() []Line {
	before, after := split(f.Before), split(f.After)
	var changes []Line
	for i, line := range after {
		now := ""
		if f.Form != FormOwn && i < len(before) {
			now = before[i]
		}
		if f.Form == FormOwn && (line[0] == '#' || slices.Contains(before, line)) {
			continue
		}
		if now != line {
			changes = append(changes, Line{"/" + f.Name, body(now), body(line)})
		}
	}
	return changes
}
