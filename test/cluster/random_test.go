package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/test/chance"
)

const (
	// defaultEvents suffices for every kind of fault to occur; `make verify-cluster` sends 10,000.
	defaultEvents = 2_000
	// workers is the number of concurrent senders of events.
	workers = 6
	// pendingLimit is how many pods may wait before the trace deletes some of them.
	pendingLimit = 90
	// fewPending is how many pods must wait, so that the nodes are full, before the trace removes others.
	fewPending = 45
	// faultEvery is the number of events between two faults, faultKinds the number of kinds of faults.
	faultEvery = 500
	faultKinds = 6
)

// trace sends random events to a cluster.
type trace struct {
	*stand
	journal  *journal
	machines map[string]*topology.Topology
	sched    *scheduler
	network  *lossy // Between the scheduler and the API server.
	events   int
	count    map[string]*atomic.Int64

	mu  sync.Mutex // Guards rng and made.
	rng *rand.Rand
	// made is the number of the last created pod.
	made int
}

// fromEnv returns a number from the environment, or a default.
func fromEnv(t *testing.T, key string, value int) int {
	t.Helper()
	text := os.Getenv(key)
	if text == "" {
		return value
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return value
}

// TestRandomEvents sends random events: pods of all kinds, deletions, completions, preempting pods, node changes, and
// faults of the scheduler and the API server. The ledger checks every state in the store. At the end every node must
// still be able to give all its CPUs to one pod; otherwise CPUs have leaked.
func TestRandomEvents(t *testing.T) {
	s := installed(t)
	seed := chance.Seed()
	t.Logf("BERTH_SEED=%d", seed)
	tr := &trace{
		stand: s, machines: traceMachines(t), events: fromEnv(t, "BERTH_CLUSTER_EVENTS", defaultEvents),
		count: map[string]*atomic.Int64{}, rng: rand.New(rand.NewPCG(seed, 0)),
	}
	l := newLedger()
	alive := newAgents(t, s.client, 5*time.Second)
	for _, name := range slices.Sorted(mapKeys(tr.machines)) {
		node := nodeObject(name, tr.machines[name])
		s.createNode(t.Context(), t, node)
		s.putTopology(t, topologyObject(name, tr.machines[name]))
		alive.live(t, name)
		l.addNode(name, tr.machines[name], node.Status.Allocatable.Cpu().MilliValue())
	}
	s.apply(t, "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 1000\n")
	tr.journal = s.watchPods(t, l, newKubelets(t, s.client).see)
	tr.network = s.through(t)
	tr.sched = s.startScheduler(t, "scheduler", sideBySide)
	tr.run(t)
	t.Logf("%6d answers to bindings were lost, %d bindings came late", tr.network.lost.Load(), tr.network.held.Load())
	tr.summarize(t, l)
	tr.nothingLeaked(t)
}

func mapKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// traceMachines returns small and unusual machines, so that they are full most of the time.
func traceMachines(t *testing.T) map[string]*topology.Topology {
	t.Helper()
	machines := map[string]*topology.Topology{}
	for _, name := range []string{
		"two-socket-ht", "ccx-nps1", "ccx-nps4", "hybrid-pe", "smt4-sparse", "snc-interleaved",
		"vm-2s2n-smt", "vm-8n", "memory-only-node", "careless-recording", "one-socket-6c",
	} {
		machines[name] = recorded(t, name)
	}
	kept := *recorded(t, "two-socket-ht") // With CPUs that no pod may use.
	kept.Reserved = set("0-1,16-17")
	machines["reserved"] = &kept
	return machines
}

// run sends the events concurrently, with a fault now and then.
func (tr *trace) run(t *testing.T) {
	start := time.Now()
	var sent atomic.Int64
	faults := max(faultKinds, tr.events/faultEvery)
	for fault := range faults {
		upTo := int64(tr.events * (fault + 1) / faults)
		var senders sync.WaitGroup
		for range workers {
			senders.Go(func() {
				for sent.Add(1) <= upTo && t.Context().Err() == nil {
					if err := tr.event(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
				sent.Add(-1)
			})
		}
		tr.disturb(t, fault)
		senders.Wait()
		if broken := tr.journal.broken(); len(broken) > 0 || t.Failed() {
			t.Fatalf("stopped after %d of %d events: %d faults", sent.Load(), tr.events, len(broken))
		}
	}
	t.Logf("%d events in %v", sent.Load(), time.Since(start).Round(time.Second))
}

// disturb causes a fault while events continue.
func (tr *trace) disturb(t *testing.T, number int) {
	sleep(t.Context(), time.Duration(tr.pick(1000))*time.Millisecond)
	switch number % faultKinds {
	case 0:
		tr.tally("scheduler restarted")
		must(t, tr.sched.Terminate())
		tr.succeed(t)
	case 1, 4:
		tr.tally("scheduler crashed")
		tr.sched.crash(t)
		tr.succeed(t)
	case 2: // Bindings are in progress when the scheduler dies.
		tr.tally("scheduler crashed while the API server was frozen")
		must(t, tr.PauseAPIServer())
		sleep(t.Context(), 300*time.Millisecond)
		tr.sched.crash(t)
		must(t, tr.ResumeAPIServer())
		tr.succeed(t)
	case 3:
		tr.tally("API server crashed")
		must(t, tr.StopAPIServer())
		sleep(t.Context(), time.Duration(tr.pick(2000))*time.Millisecond)
		must(t, tr.StartAPIServer(t.Context()))
	case 5: // Longer than a client waits for a ping of its connection.
		tr.tally("API server frozen")
		must(t, tr.PauseAPIServer())
		sleep(t.Context(), time.Second)
		must(t, tr.ResumeAPIServer())
	}
}

// succeed starts the next scheduler when no binding of the last one is in progress. With several replicas the leader's
// Lease ensures that.
func (tr *trace) succeed(t *testing.T) {
	t.Helper()
	tr.network.quiet(t)
	tr.sched.start(t)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pick returns a random number below n.
func (tr *trace) pick(n int) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.rng.IntN(n)
}

func (tr *trace) tally(what string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.count[what] == nil {
		tr.count[what] = &atomic.Int64{}
	}
	tr.count[what].Add(1)
}

// event performs one random action.
func (tr *trace) event(ctx context.Context) error {
	pending, bound := tr.sample(false), tr.sample(true)
	switch draw := tr.pick(100); {
	case pending.total > pendingLimit && draw < 40:
		return tr.remove(ctx, "waiting pod deleted", pending.one)
	case draw < 45 || bound.one == nil || pending.total < fewPending && draw < 85:
		return tr.create(ctx)
	case draw < 70:
		return tr.remove(ctx, "pod deleted", bound.one)
	case draw < 90:
		return tr.finish(ctx, bound.one)
	case draw < 92:
		return tr.cordon(ctx)
	case draw < 94:
		return tr.unpinnable(ctx)
	case draw < 95:
		return tr.replaceTopology(ctx)
	case draw < 97:
		return tr.relabel(ctx, bound.one)
	default:
		return tr.remove(ctx, "waiting pod deleted", pending.one)
	}
}

// drawn is one random pod of a kind, with the number of pods of that kind.
type drawn struct {
	one   *v1.Pod
	total int
}

// sample returns a random running bound pod, or a random waiting pod.
func (tr *trace) sample(bound bool) drawn {
	var all []*v1.Pod
	tr.journal.each(func(pod *v1.Pod) {
		ended := pod.Status.Phase == v1.PodSucceeded || pod.DeletionTimestamp != nil
		if isBound(pod) == bound && !ended {
			all = append(all, pod)
		}
	})
	if len(all) == 0 {
		return drawn{}
	}
	slices.SortFunc(all, func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return drawn{one: all[tr.pick(len(all))], total: len(all)}
}

// persist repeats a call while the API server is down, and accepts that another worker was faster.
func (tr *trace) persist(ctx context.Context, what string, call func() error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := call()
		switch {
		case err == nil:
			tr.tally(what)
			return nil
		case overtaken(err) || ctx.Err() != nil:
			return nil //nolint:nilerr // Others were faster, or the test ends.
		case time.Now().After(deadline):
			return fmt.Errorf("%s: %w", what, err)
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

func overtaken(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

func (tr *trace) create(ctx context.Context) error {
	tr.mu.Lock()
	tr.made++
	name := fmt.Sprintf("p%06d", tr.made)
	what, pod := randomPod(tr.rng, name)
	tr.mu.Unlock()
	return tr.persist(ctx, what, func() error {
		_, err := tr.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func (tr *trace) remove(ctx context.Context, what string, pod *v1.Pod) error {
	if pod == nil {
		return tr.create(ctx)
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	return tr.persist(ctx, what, func() error {
		return tr.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	})
}

// finish completes a pod, which the trace may delete later.
func (tr *trace) finish(ctx context.Context, pod *v1.Pod) error {
	return tr.persist(ctx, "pod completed", func() error {
		ended := pod.DeepCopy()
		ended.ResourceVersion = ""
		ended.Status.Phase = v1.PodSucceeded
		_, err := tr.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, ended, metav1.UpdateOptions{})
		return err
	})
}

// relabel changes a label of a bound pod, which must have no effect.
func (tr *trace) relabel(ctx context.Context, pod *v1.Pod) error {
	return tr.persist(ctx, "pod relabelled", func() error {
		changed := pod.DeepCopy()
		changed.Labels = map[string]string{"changed": fmt.Sprint(tr.pick(100))}
		_, err := tr.client.CoreV1().Pods(pod.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
		return err
	})
}

func (tr *trace) anyNode() string {
	names := slices.Sorted(mapKeys(tr.machines))
	return names[tr.pick(len(names))]
}

// cordon closes a node to new pods, or opens it.
func (tr *trace) cordon(ctx context.Context) error {
	name, closed := tr.anyNode(), tr.pick(3) == 0
	return tr.persist(ctx, "node cordoned or opened", func() error {
		node, err := tr.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Unschedulable = closed
		_, err = tr.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// unpinnable closes a node to pods with exclusive CPUs, or opens it.
func (tr *trace) unpinnable(ctx context.Context) error {
	name, state := tr.anyNode(), metav1.ConditionTrue
	if tr.pick(3) == 0 {
		state = metav1.ConditionFalse
	}
	return tr.persist(ctx, "node made pinnable or not", func() error {
		return tr.setPinnable(ctx, name, tr.machines[name], state)
	})
}

// replaceTopology deletes a node's NodeTopology and creates it again.
func (tr *trace) replaceTopology(ctx context.Context) error {
	name := tr.anyNode()
	topologies := tr.dynamic.Resource(nodeTopologies())
	err := tr.persist(ctx, "topology deleted", func() error {
		return topologies.Delete(ctx, name, metav1.DeleteOptions{})
	})
	if err != nil {
		return err
	}
	object, err := convert(topologyObject(name, tr.machines[name]))
	if err != nil {
		return err
	}
	err = tr.persist(ctx, "topology written", func() error {
		_, err := topologies.Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return tr.persist(ctx, "topology's status written", func() error {
		return tr.setPinnable(ctx, name, tr.machines[name], metav1.ConditionTrue)
	})
}

// summarize prints the counts of events and fails a trace with too few of them.
func (tr *trace) summarize(t *testing.T, l *ledger) {
	for _, what := range slices.Sorted(mapKeys(tr.count)) {
		t.Logf("%6d %s", tr.count[what].Load(), what)
	}
	tr.journal.mu.Lock()
	bound, pinned, preempted, fill := l.bound, l.pinned, l.preempted, l.fill/max(1, l.bound)
	tr.journal.mu.Unlock()
	t.Logf("%6d pods were bound, %d of them with exclusive CPUs, on nodes that were %d %% full", bound, pinned, fill)
	t.Logf("%6d pods were preempted", preempted)
	if pinned < tr.events/20 {
		t.Errorf("only %d of %d events bound a pod with exclusive CPUs", pinned, tr.events)
	}
	if preempted == 0 && tr.events >= 5*defaultEvents { // A shorter trace may have none.
		t.Error("no pod was preempted")
	}
}

// nothingLeaked opens all nodes, deletes all pods, and creates the largest possible pod for each node.
func (tr *trace) nothingLeaked(t *testing.T) {
	ctx := t.Context()
	for name, machine := range tr.machines {
		must(t, tr.setPinnable(ctx, name, machine, metav1.ConditionTrue))
		node, err := tr.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		must(t, err)
		node.Spec.Unschedulable = false
		_, err = tr.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		must(t, err)
	}
	none := int64(0)
	must(t, tr.client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &none}, metav1.ListOptions{}))
	for name, machine := range tr.machines {
		pod := pinnedPod("all-of-"+name, most(machine), onNode(name))
		_, err := tr.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		must(t, err)
	}
	for name := range tr.machines {
		if got := tr.placed(t, metav1.NamespaceDefault, "all-of-"+name); got != name {
			t.Errorf("all-of-%s is on %s", name, got)
		}
	}
}

// most returns the size of the largest pod that fits on a machine. The pod gets no efficiency cores unless it asks for
// them, and one whole core stays shared.
func most(machine *topology.Topology) int {
	b := &book{machine: machine}
	count, shared, least := 0, false, 0
	for _, core := range machine.Cores {
		whole := core.CPUs.IsSubsetOf(b.usable())
		if core.Kind == topology.KindEfficiency {
			shared = shared || whole
			continue
		}
		count += core.CPUs.Intersect(b.usable()).Size()
		if whole && (least == 0 || core.CPUs.Size() < least) {
			least = core.CPUs.Size()
		}
	}
	if shared {
		return count
	}
	return count - least
}
