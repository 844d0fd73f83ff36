package apiclient

import "unicode/utf8"

// mostNote is what an API server takes as the note of an event, in bytes.
const mostNote = 1024

// Note shortens a text to what an API server takes as the note of an event, in whole
// characters. What is left out leaves an ellipsis.
func Note(text string) string {
	if len(text) <= mostNote {
		return text
	}
	const more = "…"
	end := mostNote - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
