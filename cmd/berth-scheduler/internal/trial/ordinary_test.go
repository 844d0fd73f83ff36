package trial

import (
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-project/berth/cmd/berth-scheduler/internal/memapi"
)

// TestOrdinaryPodsAreCharged checks the accounting rule for ordinary pods. Each go-demo pod requests 1 CPU and gets 4.
// The other 3 CPUs, which its request hides, are not available to ordinary pods either, down to a thousandth of a CPU.
func TestOrdinaryPodsAreCharged(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	for i := range 3 {
		c.create(pinned(name("go-demo", i), 1, 4))
		c.bound(name("go-demo", i))
	}
	c.create(ordinary("too-big", 12001, 0))
	if got, want := c.pending("too-big"), "0/1 nodes are available: 1 "; !strings.HasPrefix(got, want) {
		t.Fatalf("too-big waits because %q, want %q", got, want)
	}
	c.create(ordinary("fits", 12000, 0))
	c.bound("fits")
	c.audit()
	c.remove("go-demo-001")
	c.remove("fits")
	c.bound("too-big")
	c.audit()
}

// TestPinnedPodsLeaveRequests checks the accounting rule in the opposite order. Ordinary pods keep what they requested
// when a pinned pod with a small request arrives.
func TestPinnedPodsLeaveRequests(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.create(ordinary("base", 21000, 0))
	c.bound("base")
	c.create(pinned("go-demo", 1, 4))
	t.Log(c.pending("go-demo"))
	c.create(pinned("three", 1, 3))
	c.bound("three")
	c.audit()
	c.remove("base")
	c.bound("go-demo")
	c.audit()
}

// TestSigning checks signatures for opportunistic batching. Ordinary pods stay eligible: two equal pods have the same
// signature. Pinned pods differ from ordinary pods, and pods with another number of CPUs differ, unless they have no
// signature.
func TestSigning(t *testing.T) {
	c := newCluster(t)
	cfg := configFrom(t, berthConfig)
	for _, pc := range cfg.Profiles[0].PluginConfig {
		// With the default spreading constraints of the system, the scheduler batches no pod at all.
		if args, ok := pc.Args.(*config.PodTopologySpreadArgs); ok {
			args.DefaultingType = config.ListDefaulting
		}
	}
	f := c.build(t.Context(), cfg, registry()).Profiles[schedulerName]
	sign := func(name string, request, limit int64, pin bool) string {
		p := ordinary(name, request, limit)
		if pin {
			p.Annotations = map[string]string{"cpuset-scheduler": "true"}
		}
		p.UID = "uid-of-" + p.UID
		return string(f.SignPod(t.Context(), p))
	}
	plain := sign("a", 1000, 4000, false)
	if plain == "" || plain != sign("b", 1000, 4000, false) {
		t.Fatalf("ordinary pods are signed %q and %q, want one text", plain, sign("b", 1000, 4000, false))
	}
	four, five := sign("c", 1000, 4000, true), sign("d", 1000, 5000, true)
	if four == plain || four == five && four != "" {
		t.Fatalf("signatures: ordinary %q, four CPUs %q, five CPUs %q; want three", plain, four, five)
	}
}

// TestOrdinaryPodsAreLeftAlone checks that pods that did not opt in are bound with one call and keep their annotations.
// Only a placement that such a pod brings is emptied, because CPUs would be reserved for it.
func TestOrdinaryPodsAreLeftAlone(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	p := ordinary("a", 1000, 4000)
	p.Annotations = map[string]string{"example.com/mine": "kept"}
	brings := ordinary("b", 1000, 4000)
	brings.Annotations = map[string]string{"example.com/mine": "kept", "berth.dev/placement": "copied"}
	c.create(p, brings)
	if got := c.bound("a").Annotations; len(got) != 1 || got["example.com/mine"] != "kept" {
		t.Fatalf("annotations %v, want those of the user", got)
	}
	if got := c.bound("b").Annotations; len(got) != 2 || got["example.com/mine"] != "kept" || got["berth.dev/placement"] != "" {
		t.Fatalf("annotations %v, want those of the user and an empty placement", got)
	}
	if n := c.api.Binds(); n != 2 {
		t.Fatalf("%d bindings, want 2", n)
	}
	c.audit()
}

// TestHandWrittenPlacement checks that Berth overwrites a placement that a user wrote or copied into an opted-in pod.
func TestHandWrittenPlacement(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.create(pinned("a", 4, 4))
	first := c.bound("a")
	p := pinned("b", 4, 4)
	p.Annotations["berth.dev/placement"] = first.Annotations["berth.dev/placement"]
	c.create(p)
	c.expect("b", "n0", "4-7", "0-1")
	c.audit()
}

// TestInvalidPolicy checks that a pod with an invalid annotation is scheduled as an ordinary pod and gets a Warning
// event InvalidPolicy.
func TestInvalidPolicy(t *testing.T) {
	for what, change := range map[string]func(map[string]string){
		"yes":      func(a map[string]string) { a["cpuset-scheduler"] = "yes" },
		"bad JSON": func(a map[string]string) { a["scheduling.koordinator.sh/resource-spec"] = "{" },
		"bad enum": func(a map[string]string) {
			a["scheduling.koordinator.sh/numa-topology-spec"] = `{"numaTopologyPolicy":"Best"}`
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t)
			c.addMachine("n0", small())
			c.begin()
			p := pinned("a", 4, 4)
			change(p.Annotations)
			c.create(p)
			if got := c.bound("a").Annotations["berth.dev/placement"]; got != "" {
				t.Fatalf("it was placed: %s", got)
			}
			c.until("an InvalidPolicy event", func() bool { return c.events("InvalidPolicy") > 0 })
		})
	}
}

// events returns the number of Warning events with a reason.
func (c *cluster) events(reason string) int {
	c.Helper()
	var all []memapi.Object
	if err := c.api.All("/apis/events.k8s.io/v1/events", &all); err != nil {
		c.Fatal(err)
	}
	n := 0
	for _, e := range all {
		if e["reason"] == reason && e["type"] == "Warning" {
			n++
		}
	}
	return n
}
