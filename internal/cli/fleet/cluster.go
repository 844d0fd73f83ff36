package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/node/apiclient"
	"github.com/berth-project/berth/internal/scheduler/simulate"
)

// restFor is the pause between two views, as a multiple of the time that the first took. The view of a large cluster
// takes a while to make, and the user's computer has other work.
const restFor = 9

// Cluster follows a cluster. It is safe for concurrent use.
type Cluster struct {
	access *access
	server string
	log    *slog.Logger

	nodes, topologies, pods, leases *kind

	end  context.CancelFunc
	done sync.WaitGroup

	mu   sync.Mutex
	last *view.Cluster
	due  time.Time
}

// Follow lists nodes, NodeTopologies, pods and Leases once and then watches them, until ctx ends or the Cluster is
// closed. If a list fails, the error names a missing right. Leases are optional: without them it is unknown which
// agents live. Follow does not change cfg.
func Follow(ctx context.Context, cfg *rest.Config, log *slog.Logger) (*Cluster, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0 // a watch has no end
	access, err := newAccess(cfg)
	if err != nil {
		return nil, err
	}
	topologies, first := apiclient.NewTopologies(cfg)
	leases, second := apiclient.NewLeases(cfg, namespace)
	if err := errors.Join(first, second); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	ctx, end := context.WithCancel(ctx)
	c := &Cluster{
		access: access, server: cfg.Host, log: log, end: end,
		nodes:      newKind("nodes", apiclient.SourceOf(access.client.Nodes(), ""), &v1.Node{}),
		topologies: newKind(v1alpha1.NodeTopologyResource, apiclient.SourceOf(topologies, ""), &v1alpha1.NodeTopology{}),
		pods:       newKind("pods", apiclient.SourceOf(access.client.Pods(""), simulate.Running), &v1.Pod{}),
		leases:     newKind("leases", apiclient.SourceOf(leases, ""), &coordination.Lease{}),
	}
	for _, k := range c.kinds() {
		c.done.Go(func() { k.follow(ctx) })
	}
	if err := c.await(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close stops following the cluster, and waits until that has ended.
func (c *Cluster) Close() {
	c.end()
	c.done.Wait()
}

func (c *Cluster) kinds() []*kind { return []*kind{c.nodes, c.topologies, c.pods, c.leases} }

// await waits for the first answer for each kind.
func (c *Cluster) await(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for _, k := range c.kinds() {
		select {
		case <-k.first:
		case <-limit.Done():
			return fmt.Errorf("list %s of %s: %w", k.what, c.server, limit.Err())
		}
		err := k.failure()
		if err == nil || k == c.leases && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)) {
			continue
		}
		if k == c.topologies && apierrors.IsNotFound(err) {
			err = simulate.ErrNoTopologies
		}
		return fmt.Errorf("list %s of %s: %w", k.what, c.server, err)
	}
	return nil
}

// View returns the cluster as it is now, or was shortly before.
func (c *Cluster) View() *view.Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	if began := time.Now(); c.last == nil || !began.Before(c.due) {
		c.last = c.look(began)
		c.due = time.Now().Add(restFor * time.Since(began))
	}
	return c.last
}

// look makes a view of the present objects.
func (c *Cluster) look(now time.Time) *view.Cluster {
	agents := simulate.AgentsOf(now, values[coordination.Lease](c.leases))
	if err := c.leases.failure(); err != nil {
		agents = simulate.Agents{At: now, Unknown: err.Error()}
	}
	o := simulate.Live(values[v1.Node](c.nodes), values[v1alpha1.NodeTopology](c.topologies), agents)
	pods := all[v1.Pod](c.pods)
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, p := range pods {
		o.Pods = append(o.Pods, simulate.Pod{Pod: p})
	}
	v := simulate.New(o).View()
	v.Server = c.server
	for _, k := range c.kinds() {
		if problem := k.problem(); problem != "" {
			v.Problems = append(v.Problems, problem)
		}
	}
	return v
}

// values returns copies of the objects of a kind, whose parts nobody changes.
func values[T any](k *kind) []T {
	var list []T
	for _, one := range all[T](k) {
		list = append(list, *one)
	}
	return list
}

// Node returns the page of a node, and false if the cluster has no node of that name.
func (c *Cluster) Node(name string) (*Page, bool) {
	_, there, err := c.nodes.GetByKey(name)
	return &Page{access: c.access, node: name, log: c.log}, there && err == nil
}
