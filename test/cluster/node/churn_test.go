package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/chance"
)

// churn creates, changes and deletes pods at random, and kills the agent now and then. The witness checks throughout;
// every few steps the whole node must become consistent.
func (s *stage) churn(t *testing.T) {
	steps := number(t, "BERTH_NODE_CHURN", 48)
	seed := chance.Seed()
	t.Logf("BERTH_SEED=%d", seed)
	c := &churner{stage: s, random: rand.New(rand.NewPCG(seed, 0)), alive: map[string]int{}, counts: map[string]int{}} //nolint:gosec // not for secrets
	for step := 1; step <= steps; step++ {
		c.step(t)
		if step%12 == 0 {
			c.rest(t)
		}
	}
	c.rest(t)
	t.Logf("%v", c.counts)
	s.figure(t, "churn: steps", c.counts)
	s.witness.mu.Lock()
	looks, excused := s.witness.looks, s.witness.excused
	s.witness.mu.Unlock()
	s.figure(t, "witness: looks at all containers so far", looks)
	s.figure(t, "longest that a CPU was shared while there was no agent, ms", excused.Milliseconds())
}

// churner makes one random history.
type churner struct {
	*stage
	random *rand.Rand
	alive  map[string]int // Names of pods, with their kinds.
	made   int
	counts map[string]int
	// killed and forced report events since the node was last at rest: the agent was killed, and a pod was deleted by
	// force. After a forced deletion the scheduler gives the CPUs to another pod at once, which then waits for them in
	// the shared pool.
	killed, forced bool
}

// most is the maximum number of pods.
const most = 8

// kindsOfPods returns the options of each kind of pod: pinned by the scheduler, pinned by the agent, pinned as a pod,
// bursting, busy and bursting, plain.
func kindsOfPods() [][]option {
	return [][]option{
		{pinned},
		{pinned, here},
		{pool(2), here},
		{limited("300m"), annotated(burstKey, burstPolicy(30))},
		{limited("200m"), spinning, annotated(burstKey, `{"policy":"auto"}`)},
		{},
	}
}

func (c *churner) step(t *testing.T) {
	t.Helper()
	name := c.any()
	roll := c.random.IntN(100)
	switch {
	case name == "" || roll < 40 && len(c.alive) < most:
		c.make(t)
	case roll < 62:
		c.note("delete")
		c.drop(t, name, metav1.DeleteOptions{})
	case roll < 68:
		c.note("delete by force")
		c.forced = true
		c.drop(t, name, deleteNow())
	case roll < 82:
		c.crash(name)
	case roll < 92:
		c.note("resize")
		request := fmt.Sprintf("%dm", 5+c.random.IntN(50))
		_ = c.patch(t.Context(), name, fmt.Sprintf( // The API server refuses this for a very new or an ending pod.
			`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":%q}}}]}}`, request), "resize")
	case roll < 96 && !c.killed:
		c.note("kill the agent")
		c.killed = true
		c.killAgent(t)
	default:
		time.Sleep(time.Duration(c.random.IntN(500)) * time.Millisecond)
	}
}

func (c *churner) note(what string) { c.counts[what]++ }

func (c *churner) any() string {
	names := make([]string, 0, len(c.alive))
	for name := range c.alive {
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return names[c.random.IntN(len(names))]
}

func (c *churner) make(t *testing.T) {
	t.Helper()
	kinds := kindsOfPods()
	kind := c.random.IntN(len(kinds))
	c.made++
	name := fmt.Sprintf("churn-%d", c.made)
	c.note(fmt.Sprintf("create kind %d", kind))
	c.create(t, podOf(name, kinds[kind]...))
	c.alive[name] = kind
}

func (c *churner) drop(t *testing.T, name string, options metav1.DeleteOptions) {
	t.Helper()
	delete(c.alive, name)
	if err := c.client.CoreV1().Pods(space).Delete(t.Context(), name, options); !apierrors.IsNotFound(err) {
		must(t, err)
	}
}

// crash kills a process of a pod's container.
func (c *churner) crash(name string) {
	p, err := c.client.CoreV1().Pods(space).Get(context.Background(), name, metav1.GetOptions{}) //nolint:forbidigo // no test is at hand
	if err != nil {
		return
	}
	for _, g := range groups() {
		b, ok := readBundle(g.id)
		if pids := g.pids(); ok && g.pod == string(p.UID) && !b.sandbox && len(pids) > 0 {
			if pid, err := strconv.Atoi(pids[0]); err == nil {
				c.note("kill a container")
				_ = unix.Kill(pid, unix.SIGKILL) // It may have ended.
			}
			return
		}
	}
}

// rest waits until the agent runs, every pod that can run does, and the whole node is consistent.
func (c *churner) rest(t *testing.T) {
	t.Helper()
	c.agentReady(t)
	killed, forced := c.killed, c.forced
	c.killed, c.forced = false, false
	if killed {
		c.freshAgent(t)
		c.agentReady(t)
	}
	if killed || forced {
		c.forgiveUnasked()
	}
	c.eventually(t, "pods are where they belong", func() string {
		list, err := c.client.CoreV1().Pods(space).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for i := range list.Items {
			p := &list.Items[i]
			if waits := unsettled(p); waits != "" {
				return p.Name + ": " + waits
			}
		}
		return ""
	})
	c.settled(t)
	if found := c.witness.take(); len(found) > 0 {
		t.Errorf("exclusive CPUs were shared at %s:\n%v\n%s", time.Now().UTC().Format(time.TimeOnly), found, c.agentSays(t))
	}
	c.note("rest")
}

// forgiveUnasked tells the witness to expect no NRI answer for containers that may have been created without the agent.
func (c *churner) forgiveUnasked() {
	var ids []string
	for _, g := range groups() {
		ids = append(ids, g.id)
	}
	c.witness.notAsked(ids...)
}

// unsettled reports what a pod waits for. It ignores a pod that waits for an exclusive CPU, because that may never
// become free.
func unsettled(p *v1.Pod) string {
	if p.Spec.NodeName == "" {
		return ""
	}
	if p.DeletionTimestamp != nil {
		return "is about to end"
	}
	for _, st := range p.Status.ContainerStatuses {
		if st.State.Running == nil {
			return fmt.Sprintf("%+v", st.State)
		}
	}
	if len(p.Status.ContainerStatuses) == 0 {
		return "no kubelet started it"
	}
	return ""
}
