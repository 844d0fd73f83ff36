package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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
	// Memory is what an earlier agent of this boot knew, for as long as neither the
	// API server nor the kubelet has said anything.
	Memory Memory
	// Log reports what goes wrong; nil for no log.
	Log *slog.Logger
}

// Client is the cluster as the agent sees it. Its methods may be called at any
// time and by several goroutines; none of them waits but Review.
type Client struct {
	options Options
	current atomic.Pointer[Snapshot]
	changed chan struct{}
	wake    chan struct{}

	link     *link
	watches  *watches
	asker    *asker
	lessee   *lessee
	topology *publisher
	events   *poster
	notes    *annotator
	reviews  reviewer

	// gone are the UIDs of pods that the API server had and the kubelet may still
	// list, and when they went.
	mu   sync.Mutex
	gone map[string]time.Time
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
	api, err := connections(options.Config, options.LeaseNamespace)
	if err != nil {
		return nil, err
	}
	return newClient(options, api), nil
}

// newClient joins the parts.
func newClient(options Options, api clients) *Client {
	c := &Client{
		options: options, changed: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		link: newLink(time.Now()), gone: map[string]time.Time{}, reviews: api.reviews,
	}
	c.link.doubt = c.soon
	c.current.Store(&Snapshot{Node: options.Memory.Node})
	c.watches = newWatches(api.reads, options.Node, c.link, c.soon, c.lost)
	c.asker = newAsker(options.Kubelet, options.Node, c.soon)
	c.lessee = &lessee{
		client: api.leases, name: options.Node,
		identity: options.Identity, link: c.link, owner: c.owner, changed: c.onLease,
	}
	c.topology = &publisher{
		client: api.topologies, name: options.Node, held: c.held, owner: c.owner,
		log: options.Log, wake: make(chan struct{}, 1),
	}
	c.notes = &annotator{
		pods: func(namespace string) podPatcher { return api.notes.Pods(namespace) },
		held: c.held, log: options.Log,
		wake: make(chan struct{}, 1), desired: map[note]*desired{},
	}
	c.events = newPoster(func(namespace string) eventWriter { return api.events.In(namespace) }, options.Node, options.Log)
	c.events.uid = func() string { return c.Snapshot().Node.UID }
	return c
}

// Run works until ctx ends, then gives the Lease back and returns nil. It is
// called once. An API server that is away is no error.
func (c *Client) Run(ctx context.Context) error {
	var work sync.WaitGroup
	c.watches.run(ctx, work.Go)
	work.Go(func() { c.asker.run(ctx) })
	work.Go(func() { c.lessee.run(ctx) })
	work.Go(func() { c.topology.run(ctx) })
	work.Go(func() { c.notes.run(ctx) })
	work.Go(func() { c.events.run(ctx) })
	c.assemble(ctx)
	work.Wait()
	return nil
}

// Snapshot returns what is known now.
func (c *Client) Snapshot() *Snapshot { return c.current.Load() }

// Changed is sent to when there is a newer Snapshot. It holds one message at most:
// it is for one reader, who then reads the newest.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// Refresh asks the kubelet for its pods soon, at most 5 times a second, for
// example because the runtime starts a pod that is in no Snapshot.
func (c *Client) Refresh() { c.asker.soon() }

// Publish makes the NodeTopology of this node the given one: the spec when it
// differs from what is there, the status at most once in 10 seconds. Conditions
// need a reason of one word and no time, which is set where their status changes.
// The last one given counts.
// The values must not be changed afterwards.
func (c *Client) Publish(spec *v1alpha1.NodeTopologySpec, status *v1alpha1.NodeTopologyStatus) {
	c.topology.publish(spec, status)
}

// Event is something that people should see in the events of an object.
type Event struct {
	// On is the pod; with an empty UID the event is on this node, with the pod's
	// name, if there is one, before the text.
	On Object
	// Reason is one word, for example "CPUPinned".
	Reason string
	// Text is at most 1,024 bytes; what is more is cut off.
	Text string
	// Topic, where it is set, tells an event from others of its object and reason in place of Text,
	// whose numbers may differ from one time to the next.
	Topic string
	// Warning says that something is not as it was asked for.
	Warning bool
}

// Event reports something. The same event again within 10 minutes is counted on
// the first one; of a topic the text there is at most 10 minutes older than it came last. Of one reason an object gets 5 texts at once and then one a
// minute, the node in all 100 at once and then 5 a second, and while the API
// server is away 500 wait; what is more is dropped, and the log says how many.
func (c *Client) Event(e Event) { c.events.add(e) }

// Annotate sets an annotation of a pod through pods/status, nil removes it. The
// last value for the same pod and key counts. A pod that is gone, or another one
// of the same name, is left alone.
func (c *Client) Annotate(pod Object, key string, value *string) { c.notes.want(pod, key, value) }
