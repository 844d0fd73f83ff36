package statedir

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-project/berth/internal/value/durable"
)

// Load reads a value that save wrote to a file of stateDir. It leaves the value unchanged if the file is missing, or
// was emptied by a power cut. Load is safe while an agent runs.
func Load(stateDir, name string, value any) error {
	path := filepath.Join(stateDir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if len(bytes.Trim(data, "\x00")) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// save replaces a file of stateDir with a value.
func save(stateDir, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return Replace(stateDir, name, data)
}

// ownerOnly is the mode of all files here: no other user may read them.
const ownerOnly = 0o600

// Replace replaces a file of stateDir, so that kill -9 leaves the whole old or new content. It does not wait for the
// disk, since a surge or the container runtime may wait for the caller. After a power cut the file may be old or empty.
// Its contents are valid only in this boot.
func Replace(stateDir, name string, data []byte) error {
	return durable.Rewrite(filepath.Join(stateDir, name), data, ownerOnly, false)
}

// identityFile names the agent among all agents that may ever run on this node. It is in the state directory, which
// only one agent at a time can use.
const identityFile = "identity"

// Identity returns the name of the agent of stateDir, and creates it at the first call.
func Identity(stateDir string) (string, error) {
	if text, err := os.ReadFile(filepath.Join(stateDir, identityFile)); err == nil && len(text) > 0 {
		return string(text), nil
	}
	identity := rand.Text()
	if err := durable.Rewrite(filepath.Join(stateDir, identityFile), []byte(identity), ownerOnly, true); err != nil {
		return "", fmt.Errorf("stateDir: %w", err)
	}
	return identity, nil
}
