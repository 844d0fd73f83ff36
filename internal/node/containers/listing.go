package containers

import (
	"context"
	"path"
	"time"

	"github.com/berth-project/berth/internal/node/cri"
	"github.com/berth-project/berth/internal/node/nri"
)

// follow lists over CRI while the runtime does not report over NRI, until ctx ends.
func (r *Runtime) follow(ctx context.Context) error {
	for {
		if wait := r.reportsFor(); wait > 0 {
			select {
			case <-time.After(wait):
				continue
			case <-ctx.Done():
				return nil
			}
		}
		listing, stop := context.WithCancel(ctx)
		err := r.client.Follow(listing, listEvery, func(l cri.Listing, err error) {
			if r.reports() {
				stop()
				return
			}
			r.take(l, err)
		})
		stop()
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// take passes on the state of the runtime at one moment.
func (r *Runtime) take(l cri.Listing, err error) {
	r.opts.Listed(eventOf(l), l.Problems, err)
	r.listed.Store(err == nil)
}

// eventOf converts a listing to NRI's form: the pods and containers that run.
func eventOf(l cri.Listing) nri.Event {
	e := nri.Event{Kind: nri.Synchronize}
	for _, p := range l.Pods {
		if p.Ready {
			e.Pods = append(e.Pods, nri.Pod{
				ID: p.ID, Namespace: p.Namespace, Name: p.Name, UID: p.UID, RuntimeHandler: p.RuntimeHandler,
				CgroupParent: parentOf(p.CgroupPath), CgroupPath: p.CgroupPath, PID: p.PID,
				Labels: p.Labels, Annotations: p.Annotations,
			})
		}
	}
	for _, c := range l.Containers {
		if c.State == cri.Running {
			e.Containers = append(e.Containers, nri.Container{
				ID: c.ID, PodID: c.PodID, Name: c.Name, State: nri.Running, CgroupPath: c.CgroupPath, PID: c.PID,
				Unrecorded: true,
			})
		}
	}
	return e
}

// parentOf returns the group of a pod from its sandbox's group, "" if that is unknown.
func parentOf(group string) string {
	if group == "" {
		return ""
	}
	return path.Dir(group)
}
