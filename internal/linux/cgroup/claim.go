package cgroup

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// ID identifies a group's directory for as long as the machine runs.
type ID = hostfs.ID

// Claim makes this handle the only one that may claim the group, until Close or the end of the process. Two agents with
// different state directories do not see each other's journals. Without a claim, each agent would mistake a quota that
// the other agent raised for the group's own limit. ErrClaimed means that another handle has the claim, in this process
// or another process. A second Claim through the same handle does nothing.
//
// The claim is a lock on the group's directory in the hierarchy of the cpu controller. It changes nothing that other
// programs read, affects only programs that claim, and ends with the process. On a file system without locks every
// claim succeeds: a refusal would only prevent Berth from managing such hosts. The other errors are those of Dir, and
// ErrNoGroup for a removed group.
func (g *Group) Claim() error {
	dir, err := g.Dir(CPU)
	if err != nil {
		return err
	}
	err = dir.Lock()
	switch {
	case err == nil, errors.Is(err, errors.ErrUnsupported):
		return nil
	case errors.Is(err, hostfs.ErrBusy):
		return fmt.Errorf("%w: %q: %w", ErrClaimed, g.path, err)
	case vanished(err):
		return fmt.Errorf("%w %q: %w", ErrNoGroup, g.path, err)
	}
	return fmt.Errorf("claim group %q: %w", g.path, err)
}
