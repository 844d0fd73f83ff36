// Package deploy holds the manifests that Berth is installed with, so that a
// program can install them too.
package deploy

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed crd/*.yaml scheduler/replace.yaml
var files embed.FS

// Definitions returns the YAML of the custom resource definitions, in the
// order of their file names.
func Definitions() ([][]byte, error) {
	names, err := fs.Glob(files, "crd/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("definitions: %w", err)
	}
	documents := make([][]byte, 0, len(names))
	for _, name := range names {
		document, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("definitions: %w", err)
		}
		documents = append(documents, document)
	}
	return documents, nil
}

// Replace returns the YAML of the scheduler's configuration in the mode in
// which Berth replaces the default scheduler: a ConfigMap with the key
// config.yaml.
func Replace() ([]byte, error) {
	manifest, err := files.ReadFile("scheduler/replace.yaml")
	if err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	return manifest, nil
}
