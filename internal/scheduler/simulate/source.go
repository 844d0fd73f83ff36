package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/topology"
)

// maxText bounds a file in bytes, far above a dump of a large cluster.
const maxText = 256 << 20

var (
	errNoFile   = errors.New("allowed: at least one file with manifests")
	errTwice    = errors.New("allowed: - (standard input) once")
	errTooLarge = fmt.Errorf("allowed: at most %d MiB", maxText>>20)
	errNoNode   = errors.New("no NodeTopology in the input: allowed: at least one, or the output of berth topology -o json")
	errNoPod    = errors.New("no Pod, Deployment, StatefulSet or Job in the input: allowed: at least one")
	errNoObject = errors.New("an object of fields, with apiVersion and kind")
)

// document is one manifest: a JSON object and its place.
type document struct {
	where  string // "file: document 2"
	object map[string]any
}

// documents reads every document of the named files, in their order. A directory means its *.yaml, *.yml and *.json
// files sorted by name, "-" means stdin. All problems are v1alpha1.ErrInvalid and name the file.
func documents(names []string, stdin io.Reader) ([]document, error) {
	files, err := expandDirs(names)
	if err != nil {
		return nil, err
	}
	var all []document
	var problems []error
	for _, name := range files {
		text, err := readText(name, stdin)
		if err == nil {
			var found []document
			found, err = split(name, text)
			all = append(all, found...)
		}
		problems = append(problems, err)
	}
	return all, errors.Join(problems...)
}

// expandDirs replaces each directory by its manifests.
func expandDirs(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, invalid("--filename", errNoFile)
	}
	var files []string
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case name == "-" && slices.Contains(files, "-"):
			return nil, invalid("-", errTwice)
		case name == "-" || err == nil && !info.IsDir():
			files = append(files, name)
		case err != nil:
			return nil, invalid(name, err)
		default:
			inside, err := manifestsIn(name)
			if err != nil {
				return nil, err
			}
			files = append(files, inside...)
		}
	}
	return files, nil
}

func manifestsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, invalid(dir, err)
	}
	var files []string
	for _, entry := range entries {
		hidden := strings.HasPrefix(entry.Name(), ".")
		if !entry.IsDir() && !hidden && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, invalid(dir, errNoFile)
	}
	return files, nil
}

func readText(name string, stdin io.Reader) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, invalid(name, err)
		}
		defer file.Close()
		stdin = file
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxText+1))
	switch {
	case err != nil:
		return nil, invalid(name, err)
	case len(text) > maxText:
		return nil, invalid(name, errTooLarge)
	}
	return text, nil
}

// split cuts a text into documents: a stream of JSON values, else YAML.
func split(name string, text []byte) ([]document, error) {
	if topology.IsRecording(text) {
		return recorded(name, text)
	}
	texts, isJSON := jsonStream(text)
	var problems []error
	if !isJSON {
		parts, err := manifest.Documents(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i, part := range parts {
			data, err := part.JSON()
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", place(name, i), err))
			}
			texts = append(texts, data)
		}
	}
	var all []document
	for i, data := range texts {
		if data == nil {
			continue // reported above
		}
		object, err := parse(data)
		if err != nil {
			problems = append(problems, invalid(place(name, i), err))
			continue
		}
		all = append(all, document{where: place(name, i), object: object})
	}
	return all, errors.Join(problems...)
}

// recorded returns the machine of a recording, made with berth topology --capture.
func recorded(name string, text []byte) ([]document, error) {
	recording, err := topology.ParseRecording(text)
	if err != nil {
		return nil, invalid(name, err)
	}
	t, err := topology.Discover(recording)
	if err != nil {
		return nil, invalid(name, err)
	}
	data, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	object, err := parse(data)
	return []document{{where: place(name, 0), object: object}}, err
}

// jsonStream splits a sequence of JSON values.
func jsonStream(text []byte) ([][]byte, bool) {
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return nil, false
	}
	var all [][]byte
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return all, true
		}
		if err != nil {
			return nil, false // YAML in flow style, or a mistake that the YAML parser reports
		}
		all = append(all, raw)
	}
}

// parse decodes one JSON object and refuses duplicate keys. Integers become int64, other numbers float64.
func parse(data []byte) (map[string]any, error) {
	var value any
	twice, err := kjson.UnmarshalStrict(data, &value)
	if err != nil {
		return nil, err //nolint:wrapcheck // wrapped by split
	}
	if len(twice) > 0 {
		return nil, errors.Join(twice...)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("value %s: allowed: %w", v1alpha1.Show(value), errNoObject)
	}
	return object, nil
}

func place(name string, i int) string { return fmt.Sprintf("%s: document %d", name, i+1) }

func invalid(where string, err error) error {
	return fmt.Errorf("%s: %w: %w", where, v1alpha1.ErrInvalid, err)
}
