package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxShown bounds the length of a value in a message, in bytes.
const maxShown = 64

// join returns the path of a field of an object.
func join(path, key string) string {
	key = plain(key)
	if path == "" {
		return key
	}
	return path + "." + key
}

// entry returns the path of an entry of a table whose keys the user chooses.
func entry(path, key string) string { return path + "[" + plain(key) + "]" }

// index returns the path of an element of a list.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// plain quotes a key that would make a message unreadable.
func plain(key string) string {
	odd := func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' || r == '"' }
	if key != "" && len(key) <= maxName && !strings.ContainsFunc(key, odd) {
		return key
	}
	return Show(key)
}

// Show formats a value for a message: as JSON on one line, shortened.
func Show(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return strconv.Quote(fmt.Sprint(value))
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(text) <= maxShown {
		return string(text)
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return string(text[:cut]) + "…"
}
