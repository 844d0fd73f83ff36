package node

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/test/cluster/local"
)

// staticPod makes the kubelet start a pod from a file. The agent must place it, because no scheduler does.
func (s *stage) staticPod(t *testing.T) {
	s.start(t, "neighbour")
	p := podOf("static", pinned)
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.Spec.NodeSelector = nil
	text, err := yaml.Marshal(p)
	must(t, err)
	file := local.NodePath("/var/lib/kubelet/static-pods") + "/static.yaml"
	must(t, os.WriteFile(file, text, 0o644))
	name := "static-" + local.NodeName
	defer func() {
		must(t, os.Remove(file))
		s.eventually(t, "the static pod is gone", func() string {
			if _, err := s.get(t, name); err == nil {
				return "it is there"
			}
			return ""
		})
	}()
	s.runs(t, name)
	s.eventually(t, "the agent's placement", func() string {
		if has := s.placement(t, name, "app"); len(has.cpus) != 1 {
			return "CPUs " + has.cpus.String()
		}
		return ""
	})
	s.settled(t)
	s.event(t, space, name, "CPUPinned")
}

// otherScheduler binds a pod as a scheduler without Berth does. The agent must place it.
func (s *stage) otherScheduler(t *testing.T) {
	s.start(t, "neighbour")
	p := s.start(t, "elsewhere", pinned, here)
	s.eventually(t, "the agent's placement", func() string {
		if has := s.placement(t, "elsewhere", "app"); len(has.cpus) != 1 {
			return "CPUs " + has.cpus.String()
		}
		return ""
	})
	s.settled(t)
	if got := s.printed(t, p, "app"); len(got) != 1 || !parseList(got[0][0]).equal(s.placement(t, "elsewhere", "app").cpus) {
		t.Errorf("printed %q", got)
	}
}

// resizePinned changes requests and limits of a pod with an exclusive CPU.
func (s *stage) resizePinned(t *testing.T) {
	p := s.start(t, "resized", pinned)
	s.start(t, "neighbour")
	s.settled(t)
	s.resize(t, "resized", "50m", "1")
	s.settled(t)
	s.unchanged(t, p)
	s.witness.notAsked(id(p, "app")) // Its creation answer no longer matches its CPUs.
	more := strconv.Itoa(len(online()))
	s.resize(t, "resized", "50m", more)
	s.settled(t)
	s.event(t, space, "resized", "CPUPinFailed", "Pod resize Infeasible") // One core stays for the other containers.
	s.unchanged(t, p)
	s.resize(t, "resized", "50m", "1")
	s.settled(t)
	s.unchanged(t, p)
	first, before := s.placement(t, "resized", "app").cpus, s.latency(t)
	limits, about := []int{2, 3, 1}, "resize, "
	if len(online()) < 4 { // No room for another CPU: the kubelet calls the runtime only for the request.
		limits, about = []int{1}, "resize to the same CPUs, "
	}
	for i, limit := range slices.Repeat(limits, number(t, "BERTH_NODE_RESIZES", 1)) {
		s.resize(t, "resized", []string{"60m", "50m"}[i%2], strconv.Itoa(limit))
		s.eventually(t, "the placement follows", func() string {
			if has := s.placement(t, "resized", "app").cpus; len(has) != limit || !first.in(has) {
				return fmt.Sprintf("CPUs %s, first %s", has, first)
			}
			return ""
		})
		s.settled(t)
		s.unchanged(t, p)
	}
	s.eventually(t, "the runtime asks", func() string { // The kubelet calls the runtime, which asks the agent.
		if s.latency(t)[math.Inf(1)] > before[math.Inf(1)] {
			return ""
		}
		return "nothing"
	})
	s.reportLatency(t, about, before)
}

// resize requests other resources and waits until the kubelet has applied them.
func (s *stage) resize(t *testing.T, name, request, limit string) {
	t.Helper()
	must(t, s.patch(t.Context(), name, fmt.Sprintf(
		`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":%q},"limits":{"cpu":%q}}}]}}`, request, limit), "resize"))
	s.eventually(t, "the kubelet has resized "+name, func() string {
		p, err := s.get(t, name)
		if err != nil {
			return err.Error()
		}
		// The status shows the limit that corresponds to the quota, and a container with exclusive CPUs has no quota.
		waits := p.Status.ObservedGeneration < p.Generation || slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress
		})
		if waits {
			return fmt.Sprintf("generation %d of %d, %+v", p.Status.ObservedGeneration, p.Generation, p.Status.Conditions)
		}
		return ""
	})
}

// resizeBursting changes the limit of bursting pods, up and down.
func (s *stage) resizeBursting(t *testing.T) {
	still := s.start(t, "still", limited("300m"), annotated(burstKey, burstPolicy(20)))
	busy := s.start(t, "busy", limited("400m"), spinning, annotated(burstKey, `{"policy":"auto","cfsQuotaBurstPercent":300}`))
	dir := s.groupOf(t, id(still, "app")).dir
	s.awaitBurst(t, dir, 20)
	for _, limit := range []int{500, 200, 300} {
		text := fmt.Sprintf("%dm", limit)
		s.resize(t, "still", "5m", text)
		s.eventually(t, "quota and burst of "+text, func() string {
			if q, b := quota(dir), burst(dir); q != fmt.Sprint(100*limit) || b != fmt.Sprint(20*limit) {
				return fmt.Sprintf("quota %s, burst %s", q, b)
			}
			return ""
		})
		s.resize(t, "busy", "5m", text)
		s.within(t, s.groupOf(t, id(busy, "app")).dir, limit, 300)
	}
}

// within waits until the quotas of a container and of its pod are between its limit and its ceiling.
func (s *stage) within(t *testing.T, dir string, milli, percent int) {
	t.Helper()
	s.eventually(t, fmt.Sprintf("a quota for %d m", milli), func() string {
		for _, d := range []string{dir, parent(dir)} {
			q, err := strconv.Atoi(quota(d))
			if err != nil || q < 100*milli || q > milli*percent {
				return fmt.Sprintf("%s: quota %s", d, quota(d))
			}
		}
		return ""
	})
}

// forceDeleted deletes a pod by force while the kubelet is down, so that its containers continue. No other pod may get
// its CPU before they have ended.
func (s *stage) forceDeleted(t *testing.T) {
	held := s.start(t, "held", pinned)
	neighbour := s.start(t, "neighbour")
	s.settled(t)
	dir := s.groupOf(t, id(neighbour, "app")).dir
	narrow := read(cpusets(), dir, "cpuset.cpus")
	must(t, s.c.Stop(t.Context(), "kubelet"))
	started := false
	defer func() {
		if !started {
			must(t, s.c.Start(t.Context(), "kubelet"))
		}
	}()
	must(t, s.client.CoreV1().Pods(space).Delete(t.Context(), "held", deleteNow()))
	s.create(t, podOf("next", pinned, here))
	for range 20 {
		time.Sleep(100 * time.Millisecond)
		if now := read(cpusets(), dir, "cpuset.cpus"); now != narrow {
			t.Fatalf("the neighbour has %s while a container that was force-deleted runs", now)
		}
		if pids := s.groupOf(t, id(held, "app")).pids(); len(pids) == 0 {
			t.Fatal("the container ended without a kubelet")
		}
	}
	started = true
	must(t, s.c.Start(t.Context(), "kubelet"))
	s.nodeReady(t)
	s.runs(t, "next")
	s.settled(t)
}

// crashLoop makes a pinned container end repeatedly. Its CPUs must stay the same.
func (s *stage) crashLoop(t *testing.T) {
	p := s.start(t, "crashing", pinned)
	neighbour := s.start(t, "neighbour")
	s.settled(t)
	dir := s.groupOf(t, id(neighbour, "app")).dir
	narrow := read(cpusets(), dir, "cpuset.cpus")
	for range 3 {
		s.restartContainer(t, p)
		if now := read(cpusets(), dir, "cpuset.cpus"); now != narrow {
			t.Errorf("the neighbour has %s, and had %s", now, narrow)
		}
	}
	now, err := s.get(t, "crashing")
	must(t, err)
	if !sameClaims(p, now) {
		t.Errorf("the placement was %s and is %s", p.Annotations[placementKey], now.Annotations[placementKey])
	}
	s.settled(t)
}

// kinds runs containers of all kinds in one pod.
func (s *stage) kinds(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	s.start(t, "neighbour")
	p := s.start(t, "kinds", pinned, func(p *v1.Pod) {
		first, side := maskContainer("first", "once"), maskContainer("side")
		first.Resources, side.Resources = cpu("500m"), cpu("500m")
		side.RestartPolicy = &always
		p.Spec.InitContainers = []v1.Container{first, side}
		half := maskContainer("half")
		half.Resources = cpu("500m")
		p.Spec.Containers = append(p.Spec.Containers, half)
	})
	must(t, s.patch(t.Context(), "kinds",
		`{"spec":{"ephemeralContainers":[{"name":"debug","image":"berth-mask:1"}]}}`, "ephemeralcontainers"))
	s.eventually(t, "the ephemeral container runs", func() string {
		now, err := s.get(t, "kinds")
		if err != nil {
			return err.Error()
		}
		if all := now.Status.EphemeralContainerStatuses; len(all) == 1 && all[0].State.Running != nil {
			return ""
		}
		return fmt.Sprintf("%+v", now.Status.EphemeralContainerStatuses)
	})
	s.settled(t)
	own := s.placement(t, "kinds", "app").cpus
	for name, shared := range map[string]bool{"app": false, "first": false, "half": true, "side": true, "debug": true} {
		got := s.printed(t, p, name)
		if len(got) != 1 {
			t.Errorf("%s printed %q", name, got)
			continue
		}
		if mask := parseList(got[0][0]); shared == mask.meets(own) || !shared && !mask.equal(own) {
			t.Errorf("%s ran on %s from its first instruction, and app has %s", name, mask, own)
		}
	}
}

// podLevel sets a limit for a pod rather than for its containers, and restarts one of the containers.
func (s *stage) podLevel(t *testing.T) {
	s.start(t, "neighbour")
	p := s.start(t, "shared", pool(3))
	s.settled(t)
	s.restartContainer(t, p)
	s.settled(t)
}

// fifty starts fifty pods at once; two of them ask for a CPU.
func (s *stage) fifty(t *testing.T) {
	begin := time.Now()
	for i := range 50 {
		options := []option{limited("50m")}
		if i%25 == 7 {
			options = []option{pinned}
		}
		s.create(t, podOf(fmt.Sprintf("many-%d", i), options...))
	}
	waiting := 0
	for i := range 50 {
		name := fmt.Sprintf("many-%d", i)
		if i%25 == 7 && waiting == 0 && len(online()) < 3 {
			if p, err := s.get(t, name); err == nil && p.Spec.NodeName == "" {
				waiting++ // The scheduler reports the reason.
				continue
			}
		}
		s.runs(t, name)
	}
	s.figure(t, "50 pods at once, s", time.Since(begin).Seconds())
	s.settled(t)
}

// signal sends a signal to the agent.
func (s *stage) signal(t *testing.T, sig unix.Signal) (pid int) {
	t.Helper()
	pid = s.agentPID(t)
	must(t, unix.Kill(pid, sig))
	return pid
}
