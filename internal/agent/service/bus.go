package service

import (
	"context"
	"errors"
	"fmt"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// Bus is the Systemd of this host, over D-Bus. Each call has its own connection, because systemd may take long to read
// its configuration.
type Bus struct{}

// Reload implements Systemd.
func (Bus) Reload(ctx context.Context) error {
	return connected(ctx, func(c *systemd.Conn) error {
		if err := c.ReloadContext(ctx); err != nil {
			return fmt.Errorf("have systemd read its units: %w", err)
		}
		return nil
	})
}

// Start implements Systemd.
func (Bus) Start(ctx context.Context, unit string) error {
	return connected(ctx, func(c *systemd.Conn) error {
		if _, _, err := c.EnableUnitFilesContext(ctx, []string{unit}, false, true); err != nil {
			return fmt.Errorf("enable %s: %w", unit, err)
		}
		done := make(chan string, 1)
		if _, err := c.RestartUnitContext(ctx, unit, "replace", done); err != nil {
			return fmt.Errorf("start %s: %w", unit, err)
		}
		return wait(ctx, "start "+unit, done)
	})
}

// Stop implements Systemd.
func (Bus) Stop(ctx context.Context, unit string) error {
	return connected(ctx, func(c *systemd.Conn) error {
		if _, err := c.DisableUnitFilesContext(ctx, []string{unit}, false); err != nil {
			return fmt.Errorf("disable %s: %w", unit, err)
		}
		done := make(chan string, 1)
		_, err := c.StopUnitContext(ctx, unit, "replace", done)
		if refused := new(dbus.Error); errors.As(err, refused) && refused.Name == noSuchUnit {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stop %s: %w", unit, err)
		}
		return wait(ctx, "stop "+unit, done)
	})
}

// noSuchUnit is systemd's error for a unit that is not loaded.
const noSuchUnit = "org.freedesktop.systemd1.NoSuchUnit"

func connected(ctx context.Context, do func(*systemd.Conn) error) error {
	c, err := systemd.NewSystemdConnectionContext(ctx)
	if err != nil {
		return fmt.Errorf("connect to systemd: %w", err)
	}
	defer c.Close()
	return do(c)
}

// wait waits until a systemd job ends. Any result but "done" is a failure.
func wait(ctx context.Context, what string, done <-chan string) error {
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s: %w: %s; see journalctl -u berth-agent", what, ErrJob, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
}
