package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

func TestNamespacesThatMayPin(t *testing.T) {
	inCluster(t, `{"namespaces":["team-a"]}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		if a := c.refused(c.pod("a", 2), "namespace default is not allowed to pin CPUs"); a.status.Code() != fwk.UnschedulableAndUnresolvable {
			t.Errorf("code %s", a.status.Code())
		}
		c.placed(c.pod("b", 2, in("team-a")))
		if a := c.schedule(c.ordinary("o", "1")); !a.status.IsSuccess() {
			t.Error(a.status.Message())
		}
	})
}

func TestCapOfNamespace(t *testing.T) {
	inCluster(t, `{"maxPinnedCPUsPerNamespace":10}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		first := c.pod("a", 6)
		c.placed(first)
		onItsWay := c.reserve(c.filter(c.pod("b", 3)))
		waits := c.pod("c", 2)
		c.refused(waits, "namespace default has 9 of the 10 pinned CPUs that it may have")
		c.placed(c.pod("d", 8, in("other")))
		c.refused(c.pod("e", 11), "more pinned CPUs than the 10 that a namespace may have")
		if got := must(c.plugin.afterPodDelete(c.plugin.core.background.log, waits, c.get(first), nil))(t); got != fwk.Queue {
			t.Error("the end of a pod of the namespace does not queue the pod")
		}
		c.giveUp(onItsWay)
		c.placed(waits)
		c.remove(first)
		c.placed(c.pod("f", 8))
		c.refused(c.pod("g", 1), "10 of the 10")
		c.start()
		c.refused(c.pod("h", 1), "10 of the 10")
	})
}

func TestRequestBelowLimitDenied(t *testing.T) {
	inCluster(t, `{"requestBelowLimit":"deny"}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.refused(c.pod("a", 2, requesting("1")), "must request as many CPUs as their limits say")
		c.placed(c.pod("b", 2))
	})
}

func TestBadArgs(t *testing.T) {
	for _, args := range []string{`{"maxPinnedCPUsPerNamespace":-1}`, `{"namespace":["a"]}`, `{"bindMode":"None"}`, `[]`} {
		if _, err := decodeArgs(&unknown{Raw: []byte(args)}, ""); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
	if _, err := decodeArgs(nil, ""); err != nil {
		t.Error(err)
	}
}

// The strategy of the args comes before the strategy of the profile, and this before the default.
func TestStrategyOfProfile(t *testing.T) {
	const least, most, even = v1alpha1.NUMALeastAllocated, v1alpha1.NUMAMostAllocated, v1alpha1.NUMADistributeEvenly
	for _, test := range []struct {
		args    string
		profile v1alpha1.NUMAAllocateStrategy
		want    v1alpha1.NUMAAllocateStrategy
	}{
		{``, "", most},
		{``, least, least},
		{`{"kind":"SchedulerArgs"}`, least, least},
		{`{"numaAllocateStrategy":""}`, least, least},
		{`{"numaAllocateStrategy":"MostAllocated"}`, least, most},
		{`{"numaAllocateStrategy":"DistributeEvenly"}`, "", even},
	} {
		got, err := decodeArgs(&unknown{Raw: []byte(test.args)}, test.profile)
		if err != nil || got.NUMAAllocateStrategy != test.want {
			t.Errorf("args %s, profile %q: %s, %v; want %s", test.args, test.profile, got.NUMAAllocateStrategy, err, test.want)
		}
	}
}

// A policy that the plugin cannot read causes one event, and the pod is scheduled as an ordinary pod.
func TestInvalidPolicy(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		for _, test := range []struct {
			name   string
			change func(*v1.Pod)
			says   string
		}{
			{"yes", annotated(v1alpha1.AnnotationCPUSetScheduler, "yes"), `"yes"`},
			{"json", annotated(resourceSpec, `{`), resourceSpec},
			{"enum", annotated(numaSpec, `{"numaTopologyPolicy":"Best"}`), "SingleNUMANode"},
			{"fraction", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = quantity("1500m") }, "whole number"},
			{"no limit", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = nil }, "limits.cpu"},
		} {
			pod := c.pod(test.name, 2, test.change)
			for range 3 {
				if a := c.filter(pod); !a.status.IsSuccess() || cycleOf(a.state).ask != nil {
					t.Errorf("%s: %v", test.name, a.status)
				}
			}
			select {
			case event := <-c.handle.recorder.Events:
				if !strings.HasPrefix(event, "Warning InvalidPolicy ") || !strings.Contains(event, test.says) {
					t.Errorf("%s: event %q", test.name, event)
				}
			default:
				t.Errorf("%s: no event", test.name)
			}
			if len(c.handle.recorder.Events) > 0 {
				t.Errorf("%s: reported more than once", test.name)
			}
		}
	})
}

// The queue may ask the plugin about the end of a pod before the plugin knows of it. The cap then refuses the waiting
// pod once more, so the plugin must activate that pod itself.
func TestCapThatIsFreeAgainWakesPods(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0,"maxPinnedCPUsPerNamespace":4}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		first := c.pod("a", 4)
		c.placed(first)
		c.refused(c.pod("b", 4), "4 of the 4")
		c.handle.tookActivated()
		c.remove(first)
		c.expectActivated("default/b")
		onItsWay := c.reserve(c.filter(c.pod("c", 4)))
		c.refused(c.pod("d", 4), "4 of the 4")
		c.handle.tookActivated()
		c.giveUp(onItsWay)
		if got := c.handle.tookActivated(); !slices.Contains(got, "default/d") {
			t.Errorf("activated %v", got)
		}
	})
}

// A pod that another program bound without a placement may hold unknown CPUs. The plugin counts more than the pod's
// request only if its namespace may pin, and only within the cap.
func TestUnknownCPUsOfNamespaces(t *testing.T) {
	for _, test := range []struct {
		name, args, namespace string
		cpus                  int
		left, more            string // what ordinary pods find, and what they do not
	}{
		{"allowed", `{"namespaces":["shop"],"maxPinnedCPUsPerNamespace":8}`, "shop", 8, "24", "24500m"},
		{"namespace", `{"namespaces":["shop"]}`, "default", 8, "31999m", "32"},
		{"cap", `{"maxPinnedCPUsPerNamespace":4}`, "default", 8, "31999m", "32"},
		{"larger than the node", `{}`, "default", 5000, "31999m", "32"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, test.args, func(t *testing.T, c *cluster) {
				c.node("n1")
				pod := c.spec("a", test.cpus, requesting("1m"), in(test.namespace))
				pod.Spec.NodeName, pod.Spec.SchedulerName = "n1", "default-scheduler"
				c.create(pod)
				if a := c.filter(c.ordinary("fits", test.left)); !a.status.IsSuccess() {
					t.Errorf("%s CPUs: %s", test.left, a.status.Message())
				}
				if a := c.filter(c.ordinary("more", test.more)); a.status.IsSuccess() {
					t.Errorf("%s CPUs find room", test.more)
				}
			})
		})
	}
}

// A pod whose policy changed is reported again. API servers refuse events with notes longer than 1 KiB, so a long list
// of unknown fields is shortened.
func TestInvalidPolicyIsReportedAnew(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 2, annotated(v1alpha1.AnnotationCPUSetScheduler, "yes"))
		c.filter(pod)
		<-c.handle.recorder.Events
		unknown := ""
		for i := range 99 {
			unknown += fmt.Sprintf(`"unknown%d":1,`, i)
		}
		c.update(pod, annotated(v1alpha1.AnnotationResourceSpec, "{"+unknown+`"y":1}`))
		c.update(pod, annotated(v1alpha1.AnnotationCPUSetScheduler, "true"))
		c.filter(c.get(pod))
		select {
		case event := <-c.handle.recorder.Events:
			if note := strings.TrimPrefix(event, "Warning InvalidPolicy "); len(note) > 1024 || len(note) < 1000 || !utf8.ValidString(note) {
				t.Errorf("a note of %d bytes: %s", len(note), note)
			}
		default:
			t.Error("no event")
		}
	})
}

// A request that no machine can satisfy is refused as unresolvable, so that no pod is evicted in vain. The message
// names the contradiction.
func TestContradictions(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.node("n2")
		c.placed(c.pod("there", 20))
		c.placed(c.pod("here", 20))
		for pod, why := range map[*v1.Pod]string{
			c.pod("odd", 3, annotated(resourceSpec, `{"requiredCPUBindPolicy":"FullPCPUs"}`)): "node(s) had cores that 3 CPUs do not fill",
			c.pod("large", 40): "fewer CPUs than the pod needs",
			c.pod("wide", 20, annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)): "fewer than 20 free CPUs in one NUMA node",
		} {
			a := c.refused(pod, why)
			if a.status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("pod %s: code %s: a pod would be evicted in vain", pod.Name, a.status.Code())
			}
			if why := c.plugin.core.queue.why(pod.UID); why != refusedBySize {
				t.Errorf("pod %s waits for more than other nodes: %s", pod.Name, why)
			}
			if len(a.refusals) != 1 {
				t.Errorf("pod %s: equal nodes give different reasons: %v", pod.Name, a.refusals)
			}
		}
	})
}
