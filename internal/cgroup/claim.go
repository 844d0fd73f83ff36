package cgroup

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/hostfs"
)

// ID identifies a group's directory for as long as the machine runs.
type ID = hostfs.ID

// Claim makes this handle the only one that may claim the group, until Close
// or the end of the process. Two agents with different state directories do
// not see each other's journals: without a claim each would take the quota that
// the other raised for the group's own limit. ErrClaimed says that another
// handle has the claim, in this process or another one. Claiming twice through
// one handle does nothing.
//
// The claim is a lock on the group's directory in the hierarchy of the cpu
// controller, so it changes nothing that anybody reads, binds only those who
// claim, and vanishes with the process. On a file system that knows no locks
// every claim succeeds: nothing is lost there that a lock could have saved,
// while refusing would keep such hosts from being managed at all. The other
// errors are those of Dir, and ErrNoGroup for one that was removed.
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
