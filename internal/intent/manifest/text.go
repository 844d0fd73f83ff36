package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	goyaml "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
)

// maxFile bounds a file in bytes. It is the limit of a ConfigMap, and enough for more than a thousand workloads.
const maxFile = 1 << 20

var (
	errNotRegular = errors.New("not a regular file")
	errMore       = errors.New("something follows the end of the document")
	errNotText    = errors.New("not UTF-8 text with line feeds")
	errTooLarge   = fmt.Errorf("larger than %d bytes", maxFile)
)

// Document is one YAML document of a text.
type Document struct {
	// Line is the line where its text begins, from 1.
	Line int
	text []byte
}

// Documents cuts a text into its YAML documents; JSON is also YAML. It omits documents without content. Text that is
// not UTF-8, or has line ends that only YAML knows, is v1alpha1.ErrInvalid.
func Documents(text []byte) ([]Document, error) {
	if !isText(text) {
		return nil, fmt.Errorf("%w: %w", v1alpha1.ErrInvalid, errNotText)
	}
	return splitDocuments(text), nil
}

// readText returns the content of a regular file of at most maxFile bytes.
func readText(name string) ([]byte, error) {
	// Stat before Open: opening a named pipe would block forever.
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, invalid(name, errNotRegular)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	case len(text) > maxFile:
		return nil, invalid(name, errTooLarge)
	case !isText(text):
		return nil, invalid(name, errNotText)
	}
	return text, nil
}

// isText refuses text that a YAML parser would read differently from splitDocuments: other encodings, and line ends
// that only YAML knows.
func isText(text []byte) bool {
	return utf8.Valid(text) && !bytes.ContainsAny(text, "\x00\u0085\u2028\u2029")
}

// splitDocuments cuts a file at the lines that begin with "---" or "...". YAML forbids such lines inside a document,
// even in quoted text and block scalars. Documents without content are omitted; directives (%YAML) are not content.
func splitDocuments(text []byte) []Document {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	var all []Document
	current := Document{Line: 1}
	for number, line := range bytes.SplitAfter(text, []byte("\n")) {
		if isMarker(line) {
			all = append(all, current)
			current = Document{Line: number + 1}
			line = append([]byte("   "), line[3:]...)
		}
		current.text = append(current.text, line...)
	}
	var filled []Document
	for _, d := range append(all, current) {
		if hasContent(d.text) {
			filled = append(filled, d)
		}
	}
	return filled
}

func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || strings.IndexByte(" \t\n", line[3]) >= 0
}

func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		directive := line[0] == '%'
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !directive {
			return true
		}
	}
	return false
}

// JSON converts the document. Invalid YAML, a duplicate key and text after the end are v1alpha1.ErrInvalid; line
// numbers in the error are those of the whole text.
func (d Document) JSON() ([]byte, error) {
	data, err := convert(d.text)
	if err == nil {
		return data, nil
	}
	// Only an error needs the lines before the document: the parser would read them for each of many documents.
	if _, atLine := convert(append(bytes.Repeat([]byte("\n"), d.Line-1), d.text...)); atLine != nil {
		err = atLine
	}
	return nil, fmt.Errorf("%w: %w", v1alpha1.ErrInvalid, err)
}

// convert converts a text that is one document.
func convert(text []byte) ([]byte, error) {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err //nolint:wrapcheck // JSON wraps it
	}
	return data, isAll(text)
}

// isAll checks that nothing follows the document. The conversion stops at the end of the document, and would silently
// ignore text after "{a: b}".
func isAll(text []byte) error {
	decoder := goyaml.NewDecoder(bytes.NewReader(text))
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	switch err := decoder.Decode(&value); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("after the end of the document: %w", err)
	}
	return errMore
}

// invalid returns the error for a whole file that cannot be read.
func invalid(file string, err error) error {
	return fmt.Errorf("%s: %w: %w", file, v1alpha1.ErrInvalid, err)
}
