package bootargs

import (
	"strings"
)

// list is one list of arguments in a file: its lines, and its place on each line.
type list struct {
	// name is the label, in a file with several lists.
	name  string
	lines []place
	// rescue is true for an entry that must not change.
	rescue bool
}

// place is the part of a line with arguments.
type place struct{ line, from, to int }

// form finds the lists of arguments in the lines of a file.
type form func(lines []string) []list

// plain parses a file in which all lines are one list: /etc/kernel/cmdline.
func plain(lines []string) []list {
	var l list
	for i, line := range lines {
		text := body(line)
		if text != "" && !strings.HasPrefix(strings.TrimSpace(text), "#") {
			l.lines = append(l.lines, place{i, 0, len(text)})
		}
	}
	if len(l.lines) == 0 {
		return nil
	}
	return []list{l}
}

// body returns a line without its end.
func body(line string) string { return strings.TrimRight(line, "\r\n") }

// keyed returns the key of a line in lower case, and the place of its value.
func keyed(line string) (key string, from, to int) {
	text := body(line)
	at := spans(text)
	if len(at) == 0 {
		return "", 0, 0
	}
	end := len(strings.TrimRight(text, " \t"))
	key = strings.ToLower(text[at[0].from:at[0].to])
	if len(at) == 1 {
		return key, end, end
	}
	return key, at[1].from, end
}

// entry parses an entry of the Boot Loader Specification: all options lines are one list.
func entry(lines []string) []list {
	var l list
	for i, line := range lines {
		key, from, to := keyed(line)
		switch key {
		case "options":
			l.lines = append(l.lines, place{i, from, to})
		case "title", "version":
			l.rescue = l.rescue || isRescue(line[from:to])
		}
	}
	if len(l.lines) == 0 {
		return nil
	}
	return []list{l}
}

// labels parses extlinux.conf: the append line of each label is a list, and so is an append line above all labels.
func labels(lines []string) []list {
	var all []list
	rescue, open, name := false, -1, ""
	for i, line := range lines {
		key, from, to := keyed(line)
		value := line[from:to]
		switch key {
		case "label":
			rescue, open, name = isRescue(value), -1, value
		case "menu":
			rescue = rescue || isRescue(value)
		case "append":
			open = len(all)
			all = append(all, list{name: name, lines: []place{{i, from, to}}})
		}
		if open >= 0 {
			all[open].rescue = all[open].rescue || rescue || isRescue(value) && key == "append"
		}
	}
	return all
}

// isRescue reports whether the text of an entry is for rescue. A rescue entry must start when the others do not.
func isRescue(text string) bool {
	text = strings.ToLower(text)
	for token := range strings.FieldsSeq(text) {
		if token == "single" {
			return true
		}
	}
	return strings.Contains(text, "rescue") || strings.Contains(text, "recovery")
}

// split divides a text into its lines, with their ends.
func split(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, line)
	}
	return lines
}

// edited applies change to each list of a text, except for rescue lists.
func edited(text string, f form, change func(name string, values []string)) string {
	lines := split(text)
	for _, l := range f(lines) {
		if l.rescue {
			continue
		}
		values := make([]string, len(l.lines))
		for i, p := range l.lines {
			values[i] = lines[p.line][p.from:p.to]
		}
		change(l.name, values)
		for i, p := range l.lines {
			before, gap := lines[p.line][:p.from], ""
			if p.from == p.to && values[i] != "" && !strings.HasSuffix(before, " ") && before != "" {
				gap = " " // a key without a value
			}
			lines[p.line] = before + gap + values[i] + lines[p.line][p.to:]
		}
	}
	return strings.Join(lines, "")
}
