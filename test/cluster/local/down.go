package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Down ends the cluster, even if it is only half started or parts of it were killed, and leaves nothing. It kills every
// process in a group of the cluster, removes the groups, the links berth0 and berth-br0, the nftables tables and Dir,
// and restores the kernel's settings. If something cannot be removed, Down reports it in the error and removes
// everything else. Without a cluster it does nothing.
func Down(ctx context.Context, out io.Writer) error {
	if err := check(); err != nil {
		return err
	}
	unlock, err := lockDir()
	if err != nil {
		return err
	}
	defer unlock()
	some, err := remains()
	if err != nil {
		return err
	}
	if !some {
		fmt.Fprintln(out, "no cluster is up")
		return removeState(ctx)
	}
	return down(ctx, out)
}

// remains reports whether parts of a cluster exist: a group, or a file in Dir other than the lock, which the caller
// has.
func remains() (bool, error) {
	groups, err := groupDirs()
	if err != nil {
		return false, err
	}
	files, err := os.ReadDir(Dir)
	if err != nil {
		return false, err
	}
	return len(groups) > 0 || slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() != lockFile }), nil
}

func down(ctx context.Context, out io.Writer) error {
	start := time.Now()
	killSupervisor()
	err := killAll(ctx)
	err = errors.Join(err, removeLinks(ctx), restore(ctx))
	if err != nil {
		return fmt.Errorf("end the cluster: %w", err)
	}
	if err := removeState(ctx); err != nil {
		return fmt.Errorf("end the cluster: %w", err)
	}
	fmt.Fprintf(out, "the cluster is down (%v)\n", time.Since(start).Round(100*time.Millisecond))
	return nil
}

// removeState removes Dir. Mounts of an ending name space may block the removal of a directory for a moment.
func removeState(ctx context.Context) error {
	if at := mountsBelow(Dir); len(at) > 0 {
		return fmt.Errorf("something is mounted at %s: it is not removed", strings.Join(at, ", "))
	}
	for deadline := time.Now().Add(time.Minute); ; {
		err := os.RemoveAll(Dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// mountsBelow returns the mount points at and below a directory, as this process sees them.
func mountsBelow(dir string) []string {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && (fields[1] == dir || strings.HasPrefix(fields[1], dir+"/")) {
			all = append(all, fields[1])
		}
	}
	return all
}
