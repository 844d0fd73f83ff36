package relocation

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
	"github.com/berth-project/berth/internal/scheduler/repack"
)

// Classes of errors.
var (
	// ErrRefused says that the node's agent, or the state of the pod, excludes a move.
	ErrRefused = errors.New("move refused")
	// ErrUnfinished says that a move was not over in time, that its agent is away, or that it is not known whether the
	// move was requested. It may still be carried out, as its step says.
	ErrUnfinished = errors.New("move not finished")
)

const (
	// lookEvery is the time between two reads of the pod.
	lookEvery = time.Second
	// withdrawFor is how long to wait for the answer to a withdrawn move.
	withdrawFor = 10 * time.Second
)

// noAnswer is the text of an unanswered move when the command ends.
const noAnswer = "the agent gave no answer, and may still carry it out"

// State is the progress of a move.
type State string

// The states.
const (
	// Moved: the pod runs on the CPUs.
	Moved State = "Moved"
	// Refused: the agent does not move the pod, or the pod is gone or not as the plan says. It has its CPUs from
	// before, or those of a resize since then.
	Refused State = "Refused"
	// Withdrawn: the request is gone and will not come back, but the pod is not on the new CPUs. It has the CPUs in the
	// text: those from before, or those of a resize.
	Withdrawn State = "Withdrawn"
	// Asked: it was requested, or may have been, and has no answer. Once the agent is back it may be carried out.
	Asked State = "Asked"
	// NotAsked: it was not requested.
	NotAsked State = "NotAsked"
)

// Step is one move of a plan. Its JSON is a stable contract.
type Step struct {
	repack.Move
	State State `json:"state"`
	// Text is why it was not moved, or empty.
	Text string `json:"text,omitempty"`
}

// Options are the node and the limits of Run. Progress may be nil; all other fields are required.
type Options struct {
	Config *rest.Config
	Node   string
	// Timeout bounds one move.
	Timeout time.Duration
	// Now is the time of day, which decides about Leases and the end of a move. A Lease that seems old is watched until
	// it is renewed, or for apiclient.LeaseQuiet.
	Now func() time.Time
	// Progress is called for each move with what is waited for.
	Progress func(string)
}

// Run carries out moves, each "namespace/name", in their order. It stops at the first that fails, and returns the
// progress of all moves.
func Run(ctx context.Context, o Options, moves []repack.Move) ([]Step, error) {
	steps := make([]Step, len(moves))
	for i := range moves {
		steps[i] = Step{Move: moves[i], State: NotAsked}
	}
	c, err := connect(o)
	for i := range steps {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return steps, fmt.Errorf("move %s: %w", steps[i].Pod, err)
		}
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("move %d of %d: %s to CPUs %s", i+1, len(steps), steps[i].Pod, steps[i].To))
		}
		err = c.carryOut(ctx, &steps[i])
		if err != nil {
			return steps, fmt.Errorf("move %s to CPUs %s: %w", steps[i].Pod, steps[i].To, err)
		}
	}
	return steps, nil
}

// cluster reaches the API server.
type cluster struct {
	options Options
	core    *apiclient.Core
	leases  *apiclient.Kind[*coordinationv1.Lease, *coordinationv1.LeaseList]
	seen    apiclient.Sighting // the Lease of the node
}

func connect(o Options) (*cluster, error) {
	core, first := apiclient.NewCore(o.Config)
	leases, second := apiclient.NewLeases(o.Config, v1alpha1.DefaultLeaseNamespace)
	if err := errors.Join(first, second); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.Config.Host, err)
	}
	return &cluster{options: o, core: core, leases: leases}, nil
}

// carryOut requests one move and waits for its end. It withdraws a move that is not over when ctx ends, or in time.
func (c *cluster) carryOut(ctx context.Context, s *Step) error {
	if err := c.awake(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	p, err := c.ask(limited, s)
	if err == nil {
		err = c.wait(limited, p, s)
	}
	if s.State != Asked {
		return err
	}
	c.withdraw(ctx, p, s)
	if ctx.Err() != nil {
		return ctx.Err() //nolint:wrapcheck // Run says which move it was.
	}
	return err
}

// awake returns once the node's agent seems to live: by the time of day, or because its Lease is seen to be renewed.
func (c *cluster) awake(ctx context.Context) error {
	for said := false; ; said = true {
		lease, err := c.alive(ctx)
		switch {
		case err != nil:
			return err
		case lease.HolderIdentity == nil || *lease.HolderIdentity == "":
			return fmt.Errorf("%w: node %s: its agent ended", ErrUnfinished, c.options.Node)
		case lease.RenewTime == nil:
			return fmt.Errorf("%w: node %s: its agent never renewed its Lease", ErrUnfinished, c.options.Node)
		}
		now := c.options.Now()
		age, silent := apiclient.LeaseAge(lease.RenewTime.Time, now)
		if !silent || c.seen.Renews(now) {
			return nil
		}
		if c.options.Progress != nil && !said {
			c.options.Progress(fmt.Sprintf("the agent of node %s renewed its Lease %v ago, if clocks agree: looking for %v whether it does",
				c.options.Node, age.Round(time.Second), apiclient.LeaseQuiet))
		}
		if !apiclient.Pause(ctx, lookEvery) {
			return ctx.Err() //nolint:wrapcheck // Run says which move it was.
		}
	}
}

// alive reads the Lease of the node's agent. The error is ErrUnfinished if the agent does not live.
func (c *cluster) alive(ctx context.Context) (*coordinationv1.LeaseSpec, error) {
	lease, err := c.leases.Get(ctx, c.options.Node, metav1.GetOptions{})
	if err != nil {
		c.seen.Miss()
		return nil, fmt.Errorf("lease %s/%s: %w", v1alpha1.DefaultLeaseNamespace, c.options.Node, err)
	}
	now := c.options.Now()
	c.seen.See(&lease.Spec, now)
	if why := c.seen.Absence(now); why != "" {
		return nil, fmt.Errorf("%w: node %s: %s", ErrUnfinished, c.options.Node, why)
	}
	return &lease.Spec, nil
}

// wait returns once the move is over: the agent has removed it, or said why not. Failed reads are repeated until the
// time is over.
func (c *cluster) wait(ctx context.Context, p asked, s *Step) error {
	last := fmt.Errorf("%w: the agent of node %s does not answer", ErrUnfinished, c.options.Node)
	for apiclient.Pause(ctx, lookEvery) {
		pod, err := c.look(ctx, p)
		if err == nil {
			if over, err := c.judge(ctx, pod, s); over {
				return err
			}
			_, err = c.alive(ctx)
			if errors.Is(err, ErrUnfinished) {
				return err
			}
		}
		if errors.Is(err, ErrRefused) {
			s.State, s.Text = Refused, err.Error()
			return err
		}
		if err != nil && !c.ends(ctx) { // an error of the end says nothing about the agent
			last = fmt.Errorf("%w: %w", ErrUnfinished, err)
		}
	}
	return last
}

// ends reports whether the time of ctx is over, even a moment before ctx knows.
func (c *cluster) ends(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !c.options.Now().Before(deadline)
}

// judge reports whether a move is over, by the pod as it is now, and why the pod was not moved. A move of someone else
// in the annotation means that this one is gone.
func (c *cluster) judge(ctx context.Context, pod *v1.Pod, s *Step) (over bool, err error) {
	move, _ := v1alpha1.DecodeMove(pod.Annotations[v1alpha1.AnnotationMove])
	switch has := cpusOf(pod); {
	case stands(pod, s):
		return false, nil
	case isOf(move, s):
		s.State, s.Text = Refused, move.Refused
		c.forget(ctx, pod)
	case has == s.To:
		s.State, s.Text = Moved, ""
		return true, nil
	default:
		s.State, s.Text = Withdrawn, fmt.Sprintf("it was withdrawn: the pod has CPUs %s", has)
	}
	return true, fmt.Errorf("%w: %s", ErrRefused, s.Text)
}

// withdraw withdraws a move that is not over, and records the outcome. If it is not known whether the move was stored,
// withdraw writes it as withdrawn.
func (c *cluster) withdraw(ctx context.Context, p asked, s *Step) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawFor)
	defer cancel()
	if s.Text == "" {
		s.Text = noAnswer
	}
	for waits := true; waits; waits = apiclient.Pause(limited, lookEvery) {
		pod, err := c.look(limited, p)
		if errors.Is(err, ErrRefused) {
			s.State, s.Text = Refused, err.Error()
			return
		}
		if err != nil {
			continue
		}
		// If the pod has not changed since, the API server may still store the move that was written. The withdrawal
		// then replaces it, and changes the pod.
		unstored := p.version != "" && pod.ResourceVersion == p.version && c.differs(pod, s) == ""
		if !unstored {
			if over, _ := c.judge(limited, pod, s); over {
				return
			}
			s.Text = noAnswer
		}
		_ = c.patch(limited, pod, func(m *v1alpha1.Move) { // the next turn checks the result
			if unstored {
				*m = moveOf(s)
			}
			m.Withdrawn = true
		})
	}
}
