package locality

import (
	"fmt"
	"strings"
)

// Limits of the text of an event, in bytes.
const (
	mostText = 1024 // limit of an API server
	mostLine = 256  // for one container, at least
	shortest = 3    // of a cut text: three dots
)

// Text returns the text of the event, word for word as ACK writes it: a line for each container, and then the totals,
// which are always present. Lists that are too long are cut.
func (s Summary) Text() string {
	if s.noTarget() {
		return ErrNoTarget.Error()
	}
	total := fmt.Sprintf("Total: %d container(s) completed, %d failed, %d skipped; cur local memory ratio %d, rest remote memory pages %d",
		s.count(Completed), s.count(Failed), s.count(Skipped), s.Ratio, s.RestPages)
	const more = "and %d more container(s)\n"
	room := mostText - len(total) - len(more) - len("1000")
	var text strings.Builder
	for i, r := range s.Results {
		line := r.line(min(room, max(mostLine, room/(len(s.Results)-i))) - 1)
		if len(line) >= room {
			fmt.Fprintf(&text, more, len(s.Results)-i)
			break
		}
		text.WriteString(line + "\n")
		room -= len(line) + 1
	}
	return text.String() + total
}

// line returns the text for one container. It cuts lists and reasons to fit into most bytes if it can.
func (r Result) line(most int) string {
	head := "Container " + r.Container + " " + strings.ToLower(string(r.Outcome)) + ": "
	if r.Outcome != Completed {
		return head + cut(r.Err.Error(), most-len(head))
	}
	way := fmt.Sprintf("from remote numa: %s to local numa: %s", r.From, r.To)
	if len(r.Exited) == 0 {
		return head + "migrated memory " + way
	}
	head += "failed to migrate the following processes: "
	const more = "and %d more,"
	room := most - len(head) - len(way) - len(more) - len("100000")
	for i, pid := range r.Exited {
		one := fmt.Sprintf("failed pid: %d, error: No such process,", pid) // the kernel's words, as the C library prints them
		if room -= len(one); room < 0 {
			head += fmt.Sprintf(more, len(r.Exited)-i)
			break
		}
		head += one
	}
	return head + way
}

// cut puts a text on one line, and shortens a long text between two letters.
func cut(text string, most int) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:max(most-shortest, 0)], "") + "..."
}
