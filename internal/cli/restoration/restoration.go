package restoration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// ErrNotRestored says that agents did not restore everything in time. They continue.
var ErrNotRestored = errors.New("not everything is put back")

const (
	// lookEvery is the time between two checks of the cluster.
	lookEvery = 2 * time.Second
	// failFor is how long a request may fail before Run returns its error: new rights take effect a moment later, and
	// an API server may be restarting.
	failFor = 30 * time.Second
)

// State is the progress of a node's agent.
type State string

// The states.
const (
	// Restored: every original value is restored on the node.
	Restored State = v1alpha1.PinnableRestored
	// Waiting: the agent is alive and has not finished.
	Waiting State = "Waiting"
	// Absent: the node has no live agent.
	Absent State = "Absent"
)

// Node is a node with a NodeTopology or with a live agent. Its JSON is a stable contract.
type Node struct {
	Name  string `json:"node"`
	State State  `json:"state"`
	// Text is what the agent reports, or why it is absent.
	Text string `json:"text"`
}

// Options has the cluster and the parameters of the wait. Progress may be nil; all other fields are required.
type Options struct {
	Config *rest.Config
	// Timeout bounds the wait.
	Timeout time.Duration
	// Now is the caller's clock, which times the changes of Leases. Only its differences matter.
	Now func() time.Time
	// Progress is called after each check, with what Run waits for.
	Progress func(string)
}

// Run returns once no live agent has anything left to restore. An agent whose Lease does not change is absent after
// apiclient.LeaseQuiet. ErrNotRestored, which names the nodes, means that the timeout passed before. Other errors are
// requests that failed for long, or until the end. Run returns the last observation of the nodes, by name.
func Run(ctx context.Context, o Options) ([]Node, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	var failing time.Duration
	for waits := true; waits; waits = apiclient.Pause(limited, lookEvery) {
		switch err = c.step(limited); {
		case err == nil && c.asked && len(c.waiting()) == 0:
			return c.nodes, nil
		case err == nil:
			failing = 0
			c.report()
		case failing >= failFor:
			return c.nodes, err
		default:
			failing += lookEvery
		}
	}
	if ctx.Err() != nil {
		return c.nodes, fmt.Errorf("wait for the agents: %w", ctx.Err())
	}
	if !c.asked && errors.Is(err, limited.Err()) { // the timeout passed between the check and the request
		c.earlier()
	}
	if len(c.waiting()) > 0 { // more useful than the request that the timeout ended
		err = fmt.Errorf("%w after %v on %s", ErrNotRestored, o.Timeout, strings.Join(c.waiting(), ", "))
	}
	return c.nodes, err
}

// cluster has the clients of a cluster, and the last observation of it.
type cluster struct {
	options    Options
	config     *apiclient.Kind[*v1.ConfigMap, *v1.ConfigMapList]
	leases     *apiclient.Kind[*coordinationv1.Lease, *coordinationv1.LeaseList]
	topologies *apiclient.Topologies
	name       string // of the ConfigMap

	nodes []Node
	asked bool // the state is set
	// seen has the observations of the Leases, by node.
	seen map[string]*apiclient.Sighting
}

func connect(o Options) (*cluster, error) {
	core, first := apiclient.NewCore(o.Config)
	leases, second := apiclient.NewLeases(o.Config, v1alpha1.DefaultLeaseNamespace)
	topologies, third := apiclient.NewTopologies(o.Config)
	if err := errors.Join(first, second, third); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.Config.Host, err)
	}
	namespace, name := strategy.BerthConfig.Split()
	return &cluster{
		options: o, config: core.ConfigMaps(namespace), name: name,
		leases: leases, topologies: topologies, seen: map[string]*apiclient.Sighting{},
	}, nil
}

// step checks the nodes, and sets the state if that is due.
func (c *cluster) step(ctx context.Context) error {
	if err := c.look(ctx); err != nil {
		for _, s := range c.seen {
			s.Miss()
		}
		return err
	}
	if c.asked {
		return nil
	}
	found, err := c.config.Get(ctx, c.name, metav1.GetOptions{})
	switch renewing := c.renewing(); {
	case apierrors.IsNotFound(err) && len(renewing) == 0: // a later step of an earlier uninstall stopped, and it is tried again
		c.asked = len(c.waiting()) == 0
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("ask the agents on %s by ConfigMap %s: %w", strings.Join(renewing, ", "), strategy.BerthConfig, err)
	case err != nil:
		return fmt.Errorf("ConfigMap %s: %w", strategy.BerthConfig, err)
	}
	if found.Data[strategy.KeyState] == strategy.StateRestore {
		c.asked = true
		return nil
	}
	if c.earlier() {
		return nil
	}
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, strategy.KeyState, strategy.StateRestore)
	if _, err := c.config.Patch(ctx, c.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("set %s of ConfigMap %s: %w", strategy.KeyState, strategy.BerthConfig, err)
	}
	c.asked = true
	return nil
}

// earlier reports whether a node still shows an earlier restoration, and makes Run wait for these nodes.
func (c *cluster) earlier() bool {
	found := false
	for i := range c.nodes {
		if n := &c.nodes[i]; n.State == Restored {
			n.State, n.Text, found = Waiting, "its agent still reports an earlier restoration", true
		}
	}
	return found
}

// look reads the progress of each node.
func (c *cluster) look(ctx context.Context) error {
	topologies, err := c.topologies.List(ctx, metav1.ListOptions{}) // empty if the kind no longer exists
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("list %s: %w", v1alpha1.NodeTopologyResource, err)
	}
	leases, err := c.leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list leases in %s: %w", v1alpha1.DefaultLeaseNamespace, err)
	}
	c.see(leases.Items)
	c.nodes = make([]Node, 0, len(topologies.Items))
	published := map[string]bool{}
	for i := range topologies.Items {
		t := &topologies.Items[i]
		published[t.Name] = true
		c.nodes = append(c.nodes, c.nodeOf(t))
	}
	now := c.options.Now()
	for name, s := range c.seen {
		if !published[name] && s.Absence(now) == "" {
			c.nodes = append(c.nodes, Node{name, Waiting, "its agent has published no NodeTopology" + unsure(s, now)})
		}
	}
	slices.SortFunc(c.nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// see records the Leases of the agents.
func (c *cluster) see(leases []coordinationv1.Lease) {
	now, there := c.options.Now(), map[string]bool{}
	for i := range leases {
		l := &leases[i]
		if !isAgents(&l.Spec) {
			continue
		}
		there[l.Name] = true
		if c.seen[l.Name] == nil {
			c.seen[l.Name] = &apiclient.Sighting{}
		}
		c.seen[l.Name].See(&l.Spec, now)
	}
	maps.DeleteFunc(c.seen, func(name string, _ *apiclient.Sighting) bool { return !there[name] })
}

// waiting returns the names of the nodes that Run waits for.
func (c *cluster) waiting() []string {
	var names []string
	for _, n := range c.nodes {
		if n.State == Waiting {
			names = append(names, n.Name)
		}
	}
	return names
}

// renewing returns the names of the nodes that Run waits for and whose agents were seen to be alive.
func (c *cluster) renewing() []string {
	now := c.options.Now()
	return slices.DeleteFunc(c.waiting(), func(name string) bool { return !c.seen[name].Renews(now) })
}

// report passes what Run waits for to Progress.
func (c *cluster) report() {
	if c.options.Progress == nil {
		return
	}
	waiting := c.waiting()
	text := fmt.Sprintf("%d of %d nodes are to put everything back", len(waiting), len(c.nodes))
	if n := len(waiting) - len(c.renewing()); n > 0 {
		text += fmt.Sprintf("; whether %d of their agents live is known after %v at most", n, apiclient.LeaseQuiet)
	}
	c.options.Progress(text)
}
