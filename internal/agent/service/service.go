package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-project/berth/internal/value/durable"
)

// Systemd is the part of systemd that Install and Remove need.
type Systemd interface {
	// Reload makes systemd read its unit files again.
	Reload(ctx context.Context) error
	// Start enables a unit for every boot, and starts or restarts it. It returns when that is done, with an error that
	// matches ErrJob if it failed.
	Start(ctx context.Context, unit string) error
	// Stop disables a unit and stops it. An unknown unit is no error.
	Stop(ctx context.Context, unit string) error
}

// Host describes where units are.
type Host struct {
	// Root is the directory that contains /etc and /usr.
	Root    string
	Systemd Systemd
}

// File is the path of the unit, below Root.
func (h Host) File() string { return filepath.Join(h.Root, "etc/systemd/system", Name) }

// Check reports whether a unit by Install is installed. It returns an error that matches ErrForeign if systemd has
// another unit of the name.
func (h Host) Check() (installed bool, err error) {
	text, err := os.ReadFile(h.File())
	switch {
	case err == nil && !bytes.HasPrefix(text, []byte(mark)):
		return false, fmt.Errorf("%s: %w: remove it yourself, or keep it", h.File(), ErrForeign)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("read unit: %w", err)
	}
	installed = err == nil
	for _, dir := range []string{"run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"} {
		file := filepath.Join(h.Root, dir, Name)
		if _, err := os.Lstat(file); err == nil && !installed {
			return false, fmt.Errorf("%s: %w: there is a unit already: systemctl enable --now berth-agent", file, ErrForeign)
		}
	}
	return installed, nil
}

// Install writes the unit, or replaces an earlier one by Install, and makes systemd start it now and at every boot. A
// running agent is restarted, which unpins nothing.
func (h Host) Install(ctx context.Context, text string) error {
	if _, err := h.Check(); err != nil {
		return err
	}
	if err := replace(h.File(), text); err != nil {
		return err
	}
	if err := h.Systemd.Reload(ctx); err != nil {
		return fmt.Errorf("%s is written: %w", h.File(), err)
	}
	if err := h.Systemd.Start(ctx, Name); err != nil {
		return fmt.Errorf("%s is written: %w", h.File(), err)
	}
	return nil
}

// Remove stops the agent and removes the unit that Install wrote. It reports whether there was one. It does not undo
// what the agent left on the host.
func (h Host) Remove(ctx context.Context) (bool, error) {
	installed, err := h.Check()
	if err != nil || !installed {
		return false, err
	}
	if err := h.Systemd.Stop(ctx, Name); err != nil {
		return true, fmt.Errorf("%s stays: %w", h.File(), err)
	}
	if err := os.Remove(h.File()); err != nil {
		return true, fmt.Errorf("remove unit: %w", err)
	}
	if err := h.Systemd.Reload(ctx); err != nil {
		return true, fmt.Errorf("%s is removed: %w", h.File(), err)
	}
	return true, nil
}

// replace replaces a file so that systemd reads all of it or none.
func replace(name, text string) error {
	const readable, searchable = 0o644, 0o755
	if err := os.MkdirAll(filepath.Dir(name), searchable); err != nil {
		return fmt.Errorf("directory of the unit: %w", err)
	}
	if err := durable.Replace(name, []byte(text), readable); err != nil {
		return fmt.Errorf("write unit: %w", err)
	}
	return nil
}
