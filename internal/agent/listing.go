package agent

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cri"
	"github.com/berth-project/berth/internal/nri"
)

const (
	// listEvery is how often a runtime is asked that reports no events.
	listEvery = time.Second
	// withoutNRI is how long NRI may be away until the runtime is asked over CRI.
	withoutNRI = 5 * time.Second
)

// askRuntime makes the client for a runtime whose NRI is not there.
func (s *surroundings) askRuntime(host *cgroup.Host) error {
	if s.config.RuntimeEndpoint == "" {
		return nil
	}
	client, err := cri.Open(s.config.RuntimeEndpoint, host)
	if err != nil {
		return fmt.Errorf("CRI: %w", err)
	}
	s.cri = client
	return nil
}

// follow asks the runtime over CRI whenever it does not report over NRI, until ctx
// ends. Containers that start then run on the CPUs of others until they are seen.
func (s *surroundings) follow(ctx context.Context, c *controller) error {
	ticker := time.NewTicker(listEvery)
	defer ticker.Stop()
	for {
		if s.told() {
			select {
			case <-ticker.C:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		listing, stop := context.WithCancel(ctx)
		err := s.cri.Follow(listing, listEvery, func(l cri.Listing, err error) {
			if s.told() {
				stop()
				return
			}
			c.takeListing(l, err)
		})
		stop()
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// told says whether the runtime reports events over NRI, or is about to.
func (s *surroundings) told() bool {
	if s.plugin == nil {
		return false
	}
	status := s.plugin.Status()
	return status.State == nri.Connected || time.Since(status.Since) < withoutNRI
}

// awaited is what is missing of the container runtime, empty for nothing: it has reported
// what runs, over NRI or where that is not there over CRI.
func (s *clusterState) awaited() string {
	switch a := s.around; {
	case a == nil, a.plugin == nil && a.cri == nil:
		return ""
	case a.cri != nil && s.listed && !a.told():
		return ""
	case a.plugin == nil:
		return "waiting for the container runtime's list at " + a.config.RuntimeEndpoint
	default:
		status := a.plugin.Status()
		if status.State == nri.Connected {
			return ""
		}
		text := fmt.Sprintf("waiting for the container runtime to connect over NRI at %s: %s", a.config.NRISocket, status.State)
		if status.Err != nil {
			text += ": " + status.Err.Error()
		}
		return text
	}
}

// takeListing takes over all that the runtime has, as it is at one moment.
func (c *controller) takeListing(l cri.Listing, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, problem := range l.Problems {
		c.fail("CRI", problem)
	}
	if c.listed = err == nil; !c.listed {
		c.fail("CRI", err)
		return
	}
	e := nri.Event{Kind: nri.Synchronize}
	for _, p := range l.Pods {
		if p.Ready {
			e.Pods = append(e.Pods, nri.Pod{
				ID: p.ID, Namespace: p.Namespace, Name: p.Name, UID: p.UID, RuntimeHandler: p.RuntimeHandler,
				CgroupParent: path.Dir(p.CgroupPath), CgroupPath: p.CgroupPath, PID: p.PID,
				Labels: p.Labels, Annotations: p.Annotations,
			})
		}
	}
	for _, one := range l.Containers {
		if one.State == cri.Running {
			e.Containers = append(e.Containers, nri.Container{
				ID: one.ID, PodID: one.PodID, Name: one.Name, State: nri.Running, CgroupPath: one.CgroupPath, PID: one.PID,
				Unrecorded: true,
			})
		}
	}
	if _, err := c.inventory.Handle(e, true); err != nil {
		c.fail("CRI", err)
	}
	c.stale = true
	c.wake()
}
