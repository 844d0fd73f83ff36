package demo

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/scratch"
)

// ErrUnsupported reports what the host lacks for demo and bench: root, a writable cgroup mount, or the cpu controller.
var ErrUnsupported = errors.New("cannot make cgroups here")

// Home is where demo and bench make their groups. The caller must close it.
type Home struct {
	Place bench.Place
	scope *scope
}

// OpenHome checks that this host allows groups and decides where: below a delegated scope under systemd on cgroup v2,
// elsewhere at the root of the hierarchies. It removes what killed runs left there. ErrUnsupported names what the host
// lacks.
func OpenHome(ctx context.Context, root *hostfs.Root) (*Home, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: root is needed, this is user %d", ErrUnsupported, os.Geteuid())
	}
	host, err := cgroup.Open(root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct} {
		hierarchy, err := host.Hierarchy(c)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		if hierarchy.ReadOnly {
			return nil, fmt.Errorf("%w: the cgroup mount of %s, %s, is read-only", ErrUnsupported, c, hierarchy.Mount)
		}
	}
	h := &Home{Place: bench.Place{Host: host, Threshold: bench.DefaultThreshold}}
	if needsUnit(host) {
		if h.scope, err = startScope(ctx, host); err != nil {
			return nil, fmt.Errorf("delegated unit: %w", err)
		}
		h.Place.Parent = h.scope.group
	}
	_, err = scratch.Sweep(host, h.Place.Parent, bench.Prefix)
	if err = errors.Join(err, bench.SweepFiles(), bench.SweepTunings()); err != nil {
		return nil, errors.Join(fmt.Errorf("sweep: %w", err), h.Close())
	}
	return h, nil
}

// Close stops the delegated scope, if any.
func (h *Home) Close() error {
	if h.scope == nil {
		return nil
	}
	return h.scope.stop()
}
