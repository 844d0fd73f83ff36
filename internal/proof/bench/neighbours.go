package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// neighbourShare divides the server's limit and its batches for each neighbour: many neighbours fit on a machine, and
// each bursts like the server.
const neighbourShare = 4

// neighbourSeed separates the seeds of neighbours from the seeds of repetitions.
const neighbourSeed = 1_000_000

// neighbourArrivals returns the arrivals of every neighbour in one repetition.
func (o BurstOptions) neighbourArrivals(pattern load.Pattern) ([][]time.Duration, error) {
	all := make([][]time.Duration, 0, o.Neighbours)
	for i := range o.Neighbours {
		own := pattern
		own.Batch = max(pattern.Batch/neighbourShare, 1)
		own.Seed += neighbourSeed * uint64(i+1)
		arrivals, err := own.Arrivals(o.Duration)
		if err != nil {
			return nil, fmt.Errorf("bench burst: neighbours: %w", err)
		}
		all = append(all, arrivals)
	}
	return all, nil
}

// neighbours are the servers beside the measured server. The arm treats all servers alike.
type neighbours struct{ stages []*Stage }

func (a Arm) openNeighbours(ctx context.Context) (*neighbours, error) {
	quota := (a.Limit / neighbourShare).Quota(Period)
	if a.Unlimited() {
		quota = unit.NoLimit
	}
	n := &neighbours{}
	for i := range a.Neighbours {
		stage, err := OpenServer(ctx, a.Place, fmt.Sprintf("%s-n%d", slug(a.Name), i), quota)
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		n.stages = append(n.stages, stage)
	}
	return n, nil
}

// load sends the server and its neighbours their arrivals, and returns the server's outcome with those of the neighbours.
// It waits for all answers: a neighbour's last requests must not count as failed because the server is done.
func (n *neighbours) load(ctx context.Context, a Arm, server *Stage) (outcome Outcome, err error) {
	beside := make([]Outcome, len(n.stages))
	group, loading := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		outcome, err = server.Load(loading, a.Work, a.Arrivals)
		return err
	})
	for i, stage := range n.stages {
		group.Go(func() (err error) {
			if beside[i], err = stage.Load(loading, a.Work, a.Neighbours[i]); err != nil {
				err = fmt.Errorf("neighbour %d: %w", i+1, err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Outcome{}, fmt.Errorf("server and neighbours: %w", err)
	}
	outcome.Beside = beside
	return outcome, nil
}

func (n *neighbours) close() error {
	var errs []error
	for _, stage := range n.stages {
		errs = append(errs, stage.Close())
	}
	return errors.Join(errs...)
}

// several is the controls of an arm with a control for each stage.
type several []Control

// Writes returns the sum of their writes.
func (s several) Writes() (int, error) {
	sum := 0
	for _, c := range s {
		n, err := c.Writes()
		if err != nil {
			return 0, fmt.Errorf("writes: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// Stop stops all of them.
func (s several) Stop() error {
	var errs []error
	for _, c := range s {
		errs = append(errs, c.Stop())
	}
	return errors.Join(errs...)
}

// control starts the control of an arm on the server and its neighbours, which are warm and idle.
func (a Arm) control(ctx context.Context, server *Stage, beside *neighbours) (Control, error) {
	if a.Name == Peer {
		return a.Peer.Start(ctx, server.Path())
	}
	if a.Name == Berth || a.Name == GoDefault {
		return startBerth(ctx, DefaultBurst(), a.Limit, server, beside.stages...)
	}
	var all several
	for i, stage := range append([]*Stage{server}, beside.stages...) {
		limit := a.Limit
		if i > 0 {
			limit /= neighbourShare
		}
		one, err := control(a.Name, stage, limit)
		if err != nil {
			return nil, errors.Join(err, all.Stop())
		}
		all = append(all, one)
	}
	return all, nil
}
