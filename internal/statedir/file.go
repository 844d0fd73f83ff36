package statedir

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Load reads what Save wrote to a file of stateDir, and leaves the value as it is where
// there is no such file. Safe while an agent runs.
func Load(stateDir, name string, value any) error {
	path := filepath.Join(stateDir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// Save replaces a file of stateDir by a value.
func Save(stateDir, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return Replace(stateDir, name, data)
}

// Replace replaces a file of stateDir by rename.
func Replace(stateDir, name string, data []byte) error {
	path := filepath.Join(stateDir, name)
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return nil
}

// identityFile names the agent among all that may ever run on this node. It lies in
// the state directory, which one agent at a time can have.
const identityFile = "identity"

// Identity returns the name of the agent of stateDir, made once.
func Identity(stateDir string) (string, error) {
	file := filepath.Join(stateDir, identityFile)
	if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
		return string(text), nil
	}
	identity := rand.Text()
	if err := os.WriteFile(file, []byte(identity), 0o600); err != nil {
		return "", fmt.Errorf("stateDir: %w", err)
	}
	return identity, nil
}
