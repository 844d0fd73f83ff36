package apiclient

import "unicode/utf8"

// mostNote is the API server's limit for the note of an event, in bytes.
const mostNote = 1024

// Note shortens a text to the API server's limit of 1024 bytes, in whole characters. An ellipsis replaces the omitted
// end.
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
