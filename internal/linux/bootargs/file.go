package bootargs

import (
	"slices"
	"strings"
)

// File is the change of one file. Its JSON can be stored for the undo.
type File struct {
	// Name is the path below the root, without a slash before it.
	Name string `json:"name"`
	// Before and After are the whole texts; Missing is true if there was no file.
	Before  string `json:"before"`
	Missing bool   `json:"missing"`
	After   string `json:"after"`
	// Form is the way in which the file has arguments.
	Form Form `json:"form"`
	// Want are the desired tokens.
	Want []string `json:"want"`
	// Changes are the changed tokens, by the name of their list.
	Changes map[string]Change `json:"changes"`
}

// Form names the way in which a file has arguments.
type Form string

// The forms of files.
const (
	// FormOwn is a file of our own, which is removed as a whole.
	FormOwn Form = "own"
	// FormEntry is an entry of the Boot Loader Specification.
	FormEntry Form = "entry"
	// FormLabels is extlinux.conf.
	FormLabels Form = "labels"
	// FormPlain is a file with arguments only.
	FormPlain Form = "plain"
	// FormTrial is the file of the entry that boots once: it is removed as a whole, even if another program changed it.
	FormTrial Form = "trial"
	// FormPart is a file of the administrator's, with the entry that boots once at its end.
	FormPart Form = "part"
)

// lists returns the function that finds a form's arguments.
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

// Changed returns the change of another program's file that gives it the tokens. An undo calls Changed again with the
// earlier text.
func Changed(name, text string, f Form, want []string) File {
	file := File{Name: name, Before: text, Form: f, Want: want, Changes: map[string]Change{}}
	if f == FormEntry && len(entry(split(text))) == 0 && len(want) > 0 { // the entry gets a line
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

// isOpen reports whether a list has a quote without an end, whose token includes all that follows.
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

// Undo reverts the change in now, the file's present text; there is false if no file is left. A file whose text is
// still After gets its earlier bytes. In any other file Undo removes the added tokens, and restores the replaced
// tokens. A file of our own that another program changed stays as it is now.
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

// Lines returns the lines that change. For a new file, Now is empty.
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
