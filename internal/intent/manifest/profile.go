package manifest

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-project/berth/api/v1alpha1"
)

// ProfileFile is a host profile with its file and lines.
type ProfileFile struct {
	Profile v1alpha1.Profile
	file    string
	lines   map[string]int
}

// LoadProfile reads the file of a host profile and checks its form. A mistake in it is a v1alpha1.ErrInvalid that names
// file and line.
func LoadProfile(path string) (ProfileFile, error) {
	text, err := readText(path)
	if err != nil {
		return ProfileFile{}, fmt.Errorf("profile: %w", err)
	}
	return ParseProfile(path, text)
}

// ParseProfile is like LoadProfile for the text of a file.
func ParseProfile(file string, text []byte) (ProfileFile, error) {
	p := ProfileFile{file: file}
	if !isText(text) {
		return p, invalid(file, errNotText)
	}
	documents := splitDocuments(text)
	if len(documents) > 1 {
		return p, invalid(file, errSeveral)
	}
	data := []byte("{}") // an empty file only lacks its required fields
	if len(documents) == 1 {
		var err error
		if data, err = documents[0].JSON(); err != nil {
			return p, fmt.Errorf("%s: %w", file, err)
		}
		p.lines = fieldLines(documents[0])
	}
	var problems v1alpha1.FieldErrors
	p.Profile, problems = v1alpha1.DecodeProfile(data)
	return p, p.Locate(problems).Err()
}

// Locate adds to each problem the file and the line of its field, or of the nearest field around it.
func (p ProfileFile) Locate(problems v1alpha1.FieldErrors) v1alpha1.FieldErrors {
	located := make(v1alpha1.FieldErrors, len(problems))
	for i, one := range problems {
		if one.File == "" {
			one.File = p.file
			if line := p.line(one.Field); line > 0 {
				one.File += ":" + strconv.Itoa(line)
			}
		}
		located[i] = one
	}
	return located
}

// line returns the line of a field, or of the nearest field around it; 0 if unknown.
func (p ProfileFile) line(field string) int {
	for field != "" {
		if line, ok := p.lines[field]; ok {
			return line
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return 0
}

// fieldLines returns the lines of the fields of a document. A field with an unusual key may have another path here than
// in the messages; then line finds the field around it.
func fieldLines(d Document) map[string]int {
	lines := map[string]int{}
	var root yaml.Node
	if err := yaml.Unmarshal(d.text, &root); err != nil || len(root.Content) == 0 {
		return lines // the conversion to JSON reports the mistake
	}
	nodeLines(root.Content[0], "", d.Line-1, lines)
	return lines
}

func nodeLines(n *yaml.Node, field string, before int, lines map[string]int) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			name := field + "." + key
			switch field {
			case "":
				name = key
			case "metadata.labels", "metadata.annotations", "spec.cpus", "spec.settings":
				name = field + "[" + key + "]" // the user's own key
			}
			lines[name] = n.Content[i].Line + before
			nodeLines(n.Content[i+1], name, before, lines)
		}
	case yaml.SequenceNode:
		for i, element := range n.Content {
			name := field + "[" + strconv.Itoa(i) + "]"
			lines[name] = element.Line + before
			nodeLines(element, name, before, lines)
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
}
