package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxDepth bounds the nesting of a document. No type here needs more than six levels, and recursion must end before the
// stack is exhausted.
const maxDepth = 16

// parseTree parses one JSON value and refuses duplicate keys. encoding/json would silently use the last of them.
func parseTree(data []byte) (any, FieldErrors) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	p := parser{decoder: d}
	tree, err := p.value("", 0)
	if err == nil {
		err = end(d)
	}
	if err != nil {
		return nil, FieldErrors{{Value: Show(string(data)), Allowed: "one JSON value: " + err.Error()}}
	}
	return tree, p.problems
}

var errTrailing = errors.New("there is more after its end")

func end(d *json.Decoder) error {
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

type parser struct {
	decoder  *json.Decoder
	problems FieldErrors
}

func (p *parser) value(path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	token, err := p.decoder.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("byte %d: %w", p.decoder.InputOffset(), err)
	}
	switch token {
	case json.Delim('{'):
		return p.object(path, depth)
	case json.Delim('['):
		return p.list(path, depth)
	}
	return token, nil
}

func (p *parser) object(path string, depth int) (any, error) {
	object := map[string]any{}
	for p.decoder.More() {
		token, err := p.decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("byte %d: %w", p.decoder.InputOffset(), err)
		}
		key, _ := token.(string)
		value, err := p.value(join(path, key), depth+1)
		if err != nil {
			return nil, err
		}
		if _, twice := object[key]; twice {
			p.problems = append(p.problems, FieldError{Field: join(path, key), Value: Show(value), Allowed: "the field only once"})
		}
		object[key] = value
	}
	return object, p.close()
}

func (p *parser) list(path string, depth int) (any, error) {
	list := []any{}
	for p.decoder.More() {
		value, err := p.value(index(path, len(list)), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, p.close()
}

// close reads the delimiter that More found.
func (p *parser) close() error {
	if _, err := p.decoder.Token(); err != nil {
		return fmt.Errorf("byte %d: %w", p.decoder.InputOffset(), err)
	}
	return nil
}
