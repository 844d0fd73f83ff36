package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
)

// PodLister is the kubelet of this node.
type PodLister interface {
	// Pods returns all pods that the kubelet knows, as its /pods does. It must
	// end soon after ctx does.
	Pods(ctx context.Context) ([]v1.Pod, error)
}

// Options of a Client.
type Options struct {
	// Config is how to reach the API server, from Connect.
	Config *rest.Config
	// Node is the name of this node.
	Node string
	// Identity names this agent among all that may ever run on the node. It is
	// best kept in the state directory, which only one agent can have: an agent
	// that was killed then goes on where it was, and does not have to wait until
	// its own Lease runs out.
	Identity string
	// LeaseNamespace is where the Lease is, "berth-system" if empty.
	LeaseNamespace string
	// Kubelet is asked for pods while the API server is away; nil for never.
	Kubelet PodLister
	// Log is told of what goes wrong; nil for nobody.
	Log *slog.Logger
}

// Client is the cluster as the agent sees it. Its methods may be called at any
// time and by several goroutines; none of them waits.
type Client struct {
	options Options
	current atomic.Pointer[Snapshot]
	changed chan struct{}
}

// New returns a Client that does nothing before Run. Errors are ErrOptions.
func New(options Options) (*Client, error) {
	if options.Config == nil || options.Node == "" || options.Identity == "" {
		return nil, fmt.Errorf("%w: Config, Node and Identity are needed", ErrOptions)
	}
	options.LeaseNamespace = cmp.Or(options.LeaseNamespace, v1alpha1.DefaultLeaseNamespace)
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{options: options, changed: make(chan struct{}, 1)}
	c.current.Store(&Snapshot{})
	return c, nil
}

// Run works until ctx ends, then gives the Lease back and returns nil. It returns
// an error only if it could not start; an API server that is away is none.
func (c *Client) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Snapshot returns what is known now.
func (c *Client) Snapshot() *Snapshot { return c.current.Load() }

// Changed is sent to when there is a newer Snapshot. It holds one message at most:
// it is for one reader, who then reads the newest.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// Refresh asks the kubelet for its pods soon, at most 5 times a second, for
// example because the runtime starts a pod that is in no Snapshot.
func (c *Client) Refresh() {}

// Publish makes the NodeTopology of this node the given one: the spec when it
// differs from what is there, the status at most once in 10 seconds. Conditions
// need no time: it is set where their status changes. The last one given counts.
// The values must not be changed afterwards.
func (c *Client) Publish(spec *v1alpha1.NodeTopologySpec, status *v1alpha1.NodeTopologyStatus) {
	_, _ = spec, status
}

// Event is something that people should see in the events of an object.
type Event struct {
	// On is the pod; with an empty UID the event is on this node.
	On Object
	// Reason is one word, for example "CPUPinned".
	Reason string
	// Text is at most 1,024 bytes; what is more is cut off.
	Text string
	// Warning says that something is not as it was asked for.
	Warning bool
}

// Event tells of something. The same event on the same object again within 10
// minutes is counted on the first one; a reason has at most one other text a
// minute on an object, and what comes faster than the API server takes it is
// dropped.
func (c *Client) Event(e Event) { _ = e }

// Annotate sets an annotation of a pod through pods/status, nil removes it. The
// last value for the same pod and key counts. A pod that is gone, or another one
// of the same name, is left alone.
func (c *Client) Annotate(pod Object, key string, value *string) { _, _, _ = pod, key, value }
