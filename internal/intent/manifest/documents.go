package manifest

import (
	"fmt"

	"github.com/berth-project/berth/api/v1alpha1"
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
	var all []Document
	for _, d := range splitDocuments(text) {
		all = append(all, Document{Line: d.line, text: d.text})
	}
	return all, nil
}

// JSON converts the document. Invalid YAML, a duplicate key and text after the end are v1alpha1.ErrInvalid; line
// numbers in the error are those of the whole text.
func (d Document) JSON() ([]byte, error) { return document{line: d.Line, text: d.text}.toJSON() }
