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
	"github.com/berth-project/berth/internal/node/apiclient"
)

// PodLister is the kubelet of this node.
type PodLister interface {
	// Pods returns all pods that the kubelet knows, as its /pods does. It must return soon after ctx ends.
	Pods(ctx context.Context) ([]v1.Pod, error)
}

// Options of a Client.
type Options struct {
	// Config describes how to reach the API server, from Connect.
	Config *rest.Config
	// Node is the name of this node.
	Node string
	// Identity identifies this agent among all that may ever run on the node. It is best stored in the state directory,
	// which only one agent can own. An agent that restarts after a kill then still holds its Lease, and need not wait
	// until that expires.
	Identity string
	// LeaseNamespace is the namespace of the Lease, "berth-system" if empty.
	LeaseNamespace string
	// Kubelet lists the pods while the API server is away; nil for never.
	Kubelet PodLister
	// Memory is what an earlier agent of this boot knew. It is used until the API server or the kubelet has answered.
	Memory Memory
	// Log receives problems; nil for no log.
	Log *slog.Logger
}

// Client is the agent's view of the cluster. All methods are safe for concurrent use, and only Run and Review block.
type Client struct {
	options Options
	current atomic.Pointer[Snapshot]
	// changed is for the readers of snapshots; wake asks for a new snapshot.
	changed, wake apiclient.Wake

	link     *link
	watches  *watches
	asker    *asker
	lessee   *lessee
	topology *publisher
	events   *poster
	notes    *annotator
	reviews  reviewer

	// gone maps the UIDs of pods that the API server had, and the kubelet may still list, to the time of their removal.
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

func newClient(options Options, api clients) *Client {
	c := &Client{
		options: options, changed: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		link: newLink(time.Now()), gone: map[string]time.Time{}, reviews: api.reviews,
	}
	c.link.doubt = c.wake.Soon
	c.current.Store(&Snapshot{Node: options.Memory.Node})
	c.watches = newWatches(api.reads, options.Node, c.link, c.wake.Soon, c.lost)
	c.asker = newAsker(options.Kubelet, options.Node, c.wake.Soon)
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

// Run works until ctx ends, then releases the Lease and returns nil. It is called once. An unreachable API server is no
// error.
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

// Snapshot returns the current snapshot.
func (c *Client) Snapshot() *Snapshot { return c.current.Load() }

// Changed receives a message when there is a newer Snapshot. It buffers one message, for one reader, which then reads
// the newest Snapshot.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// Refresh asks the kubelet for its pods soon, at most 5 times a second, for example because the runtime starts a pod
// that is in no Snapshot.
func (c *Client) Refresh() { c.asker.now.Soon() }

// Publish sets the NodeTopology of this node: the spec when it differs from the present spec, the status at most once
// in 10 seconds. Conditions need a reason of one word and no time; Publish sets the time when their status changes. A
// later call replaces an earlier one. The caller must not change the values afterwards.
//
// A nil spec stands for a machine that is not known. Publish then sets the conditions of status in a NodeTopology that
// exists, and nothing else. It creates none.
func (c *Client) Publish(spec *v1alpha1.NodeTopologySpec, status *v1alpha1.NodeTopologyStatus) {
	c.topology.publish(spec, status)
}

// Event is something that people should see in the events of an object.
type Event struct {
	// On is the pod. With an empty UID the event is about this node, and its text begins with the pod's name, if any.
	On Object
	// Reason is one word, for example "CPUPinned".
	Reason string
	// Text is cut off after 1,024 bytes.
	Text string
	// Topic, if set, replaces Text when events of one object and reason are compared: numbers in their texts may
	// differ.
	Topic string
	// Warning is true if something is not as requested.
	Warning bool
}

// Event reports an event. A repetition within 10 minutes increases the count of the first event. With a Topic, the text
// that is shown is at most 10 minutes older than the latest. Each object and reason may have 5 texts at once and then
// one a minute, the whole node 100 at once and then 5 a second. At most 500 events wait while the API server is away.
// Further events are dropped, and the log has their number.
func (c *Client) Event(e Event) { c.events.add(e) }

// Annotate sets an annotation of a pod through pods/status; a nil value removes it. The last value for one pod and key
// wins. Annotate changes neither a pod that is gone nor another pod of the same name.
func (c *Client) Annotate(pod Object, key string, value *string) { c.notes.want(pod, key, value) }
