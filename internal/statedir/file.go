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

	"github.com/berth-project/berth/internal/durable"
)

// Load reads what Save wrote to a file of stateDir, and leaves the value as it is where
// there is no such file, or one that a power cut emptied. Safe while an agent runs.
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

// Save replaces a file of stateDir by a value.
func Save(stateDir, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return Replace(stateDir, name, data)
}

// ownerOnly is the mode of all files here: what they have is nobody else's to read.
const ownerOnly = 0o600

// Replace replaces a file of stateDir, so that kill -9 leaves the old content or the new one, whole. It
// waits for no disk, since a surge or the container runtime may wait for the caller: after a power cut
// the file may be the old one, or empty. No other boot counts what is in it.
func Replace(stateDir, name string, data []byte) error {
	return durable.Rewrite(filepath.Join(stateDir, name), data, ownerOnly, false)
}

// identityFile names the agent among all that may ever run on this node. It lies in
// the state directory, which one agent at a time can have.
const identityFile = "identity"

// Identity returns the name of the agent of stateDir, made once.
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
