package cri

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// streamAgain is the pause between the end of the event stream and the next request for it.
const streamAgain = time.Second

// Follow lists at once, after each change that the runtime reports, and at the latest when the interval every has
// passed. It passes each listing, or the error, to seen, until ctx ends. Changes during a list cause one more list. If
// the runtime sends no events, Follow lists only at that interval. One goroutine calls seen. The error is nil.
func (c *Client) Follow(ctx context.Context, every time.Duration, seen func(Listing, error)) error {
	changed := make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		c.watch(ctx, changed)
		return nil
	})
	group.Go(func() error {
		for {
			list, err := c.List(ctx)
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the end was asked for
			}
			seen(list, err)
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			case <-time.After(every):
			}
		}
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("follow container runtime: %w", err)
	}
	return nil
}

// watch signals every event of the runtime in changed, until ctx ends or the runtime reports that it sends no events.
func (c *Client) watch(ctx context.Context, changed chan<- struct{}) {
	for {
		err := c.stream(ctx, changed)
		if status.Code(err) == codes.Unimplemented {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(streamAgain):
		}
		note(changed) // events in between were not reported
	}
}

// note requests another listing, unless one is already requested.
func note(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// stream signals events until the stream ends.
func (c *Client) stream(ctx context.Context, changed chan<- struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := c.service.GetContainerEvents(ctx, &runtime.GetEventsRequest{})
	if err != nil {
		return err //nolint:wrapcheck // its code is looked at
	}
	for {
		if _, err := events.Recv(); err != nil {
			return err //nolint:wrapcheck // its code is looked at
		}
		note(changed)
	}
}
