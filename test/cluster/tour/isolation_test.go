package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// borrower is cal-pi of the documentation with the policy from its comment, and with an image that leaves most of its
// quota unused, because a throttled container borrows nothing.
const borrower = `apiVersion: v1
kind: Pod
metadata:
  name: cal-pi
  annotations: {cpuset-scheduler: 'true', cpu-policy: 'static-burst'}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/hostname: %s}
  containers:
  - {name: app, image: "berth-mask:1", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: 100m}, limits: {cpu: 2}}}
`

// burner is an online pod with so many busy threads.
const burner = `apiVersion: v1
kind: Pod
metadata: {name: burner, labels: {koordinator.sh/qosClass: LS}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  nodeSelector: {kubernetes.io/hostname: %s}
  containers:
  - {name: app, image: "berth-burn:1", imagePullPolicy: IfNotPresent, args: [spin, "%d"], resources: {requests: {cpu: 5m}}}
`

// isolation runs the Deployments on the node while an administrator gives offline work its own cores. It starts with
// one core, so that the boundary does not move and every container's first CPUs can be checked, also after a kill of
// the kubelet, and after one of the agent. Then a pod borrows CPUs, the boundary follows a load, and offline work gets a
// larger guarantee. In the end all containers must have all CPUs. Offline pods yield all the time, and no longer, except
// the pod with an annotation of its own.
func (s *second) isolation(t *testing.T) {
	defer func() {
		s.isolate(t, "")
		s.leave()
	}()
	cores := s.cores(t)
	s.isolate(t, `"enable": true, "cpuSuppressThresholdPercent": 0`)
	s.eventually(t, "the agent knows", func() string {
		// Pods of the test before may still be leaving, which status answers with exit code 4.
		if said := s.sh(t, "berth status -o json || test $? -eq 4"); !strings.Contains(said, policyName) {
			return "it does not"
		}
		return ""
	})
	s.manifest(t, "both-sides.yaml", bothSides(vmName))
	s.apart(t, "offline work came", cores, 1)
	s.rightFromTheFirst(t, isOffline)
	s.precedence(t, true)
	s.annotated(t)

	there := s.pods(t)
	s.sh(t, "systemctl kill --signal=KILL kubelet.service")
	stays := "" // an offline pod, which stays so that the boundary stays
	for name, p := range there {
		if stays == "" && p.Labels["app"] == "offline" {
			stays = name
			continue
		}
		s.drop(t, name)
	}
	s.apart(t, "the kubelet came back", cores, 1)
	s.rightFromTheFirst(t, func(p *v1.Pod) bool { return there[p.Name] == nil })
	s.precedence(t, true)

	s.sh(t, killAgent)
	s.apart(t, "the agent came back", cores, 1)
	s.precedence(t, true)

	s.borrows(t, cores)
	s.follows(t, cores)

	s.isolate(t, `"enable": true, "cpuSuppressThresholdPercent": 0, "cpuSuppressMinPercent": 30`)
	s.apart(t, "offline work has more", cores, 3)

	s.isolate(t, "")
	s.precedence(t, false)
	s.eventually(t, "all have all CPUs", func() string {
		for _, r := range s.residents(t) {
			if r.ours && r.mask != s.online(t) {
				return r.pod + " runs on " + r.mask.String()
			}
		}
		return ""
	})
}

// manifest applies a manifest with the given text.
func (s *second) manifest(t *testing.T, name, text string) {
	t.Helper()
	file, err := manifest(t.TempDir(), name, text)
	if err == nil {
		err = s.apply(t.Context(), file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// killAgent kills the agent of the guest, as the kernel does when memory runs out.
const killAgent = `for p in /proc/[0-9]*; do
  read -r name <$p/comm && [ "$name" = berth ] && grep -qa "^berth.agent" $p/cmdline && kill -KILL ${p#/proc/}
done 2>/dev/null; true`

// precedence waits until the groups of the pods yield on a CPU as they should while an administrator asks for that, or
// does not. No group of the kubelet above them may yield: the kubelet could not write its weight then.
func (s *second) precedence(t *testing.T, asked bool) {
	t.Helper()
	all := s.pods(t)
	if len(all) != ofBothSides {
		t.Fatalf("%d pods, want %d", len(all), ofBothSides)
	}
	for _, p := range all {
		s.yields(t, p, wantIdle(p, asked))
	}
	if has := s.sh(t, "cat /sys/fs/cgroup/kubepods.slice/cpu.idle /sys/fs/cgroup/kubepods.slice/kubepods-*.slice/cpu.idle"); strings.Contains(has, "1") {
		t.Errorf("groups of the kubelet are idle: %q", has)
	}
}

// yields waits until a pod's group has this cpu.idle. A group that does not yield must have the kubelet's weight, which
// the kernel forgets while a group is idle. All pods here request the same, so an online pod's group has it.
func (s *second) yields(t *testing.T, p *v1.Pod, idle string) {
	t.Helper()
	group := func(p *v1.Pod) string {
		return fmt.Sprintf("/sys/fs/cgroup/kubepods.slice/*/*-pod%s.slice", strings.ReplaceAll(string(p.UID), "-", "_"))
	}
	want := idle
	if idle == "0" {
		for _, other := range s.pods(t) {
			if other.Labels["app"] == "online" {
				want = idle + "\n" + s.sh(t, "cat "+group(other)+"/cpu.weight")
				break
			}
		}
	}
	s.eventually(t, fmt.Sprintf("%s with cpu.idle %s", p.Name, idle), func() string {
		has := s.sh(t, fmt.Sprintf("cat %[1]s/cpu.idle; [ %[2]s = 1 ] || cat %[1]s/cpu.weight", group(p), idle))
		if has != want {
			return fmt.Sprintf("idle and weight: %q, want %q", has, want)
		}
		return ""
	})
}

// annotated gives the pod that does not yield another annotation of its own, and its first annotation again. Its group
// then yields as the other offline groups, and no longer.
func (s *second) annotated(t *testing.T) {
	t.Helper()
	for _, p := range s.pods(t) {
		if p.Labels["app"] != optedOut {
			continue
		}
		for _, c := range []struct{ annotation, idle string }{{`{"enable": true}`, "1"}, {optingOut, "0"}} {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationCPUQOS, c.annotation)
			if _, err := s.client.CoreV1().Pods(namespace).Patch(t.Context(), p.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			s.yields(t, p, c.idle)
		}
	}
}

// ofBothSides is the number of pods of the Deployments.
const ofBothSides = 2*replicas + 1

// law is what the agent says of the boundary.
type law struct {
	Use    float64 `json:"use"`
	Low    int     `json:"low"`
	Target int     `json:"target"`
	Moves  int     `json:"moves"`
	Moved  string  `json:"moved"`
	Surges int     `json:"surges"`
}

func (s *second) law(t *testing.T) law {
	t.Helper()
	var status struct {
		Isolation law `json:"isolation"`
	}
	text := s.sh(t, "berth status -o json 2>/dev/null || test $? -eq 4")
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return status.Isolation
}

// becomes waits until the law is such, and returns it.
func (s *second) becomes(t *testing.T, what string, such func(law) bool) (l law) {
	t.Helper()
	s.eventually(t, what, func() string {
		if l = s.law(t); !such(l) {
			return fmt.Sprintf("%+v", l)
		}
		return ""
	})
	t.Logf("%s: %+v", what, l)
	return l
}

// follows lets the boundary follow a load. An online pod that burns takes all CPUs of its side again and again, until
// offline work has its guarantee only. When it ends, offline work grows again. A witness looks at the files of the kernel
// all the time: the sides stay apart, also while the boundary moves.
//
// The emulated CPUs wait for those of this machine, which the guest sees neither as idle time nor as steal. So the test
// expects no amount of use, neither before the load nor from it. It compares what offline work has beside a load that
// leaves no idle time with what it has without that load.
func (s *second) follows(t *testing.T, cores []cpuset.Set) {
	t.Helper()
	seen, err := s.witness(t.Context(), vmName, "/run/berth-tour-sides", sparsely)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		seen.cancel()
		_ = seen.running.Wait() // the first error is the test's
	}()
	of := map[string]beheld{}
	s.behold(t, of, true)
	guarantee := cores[0].Size()
	more := func(cpus int) bool { return cpus > guarantee }

	s.isolate(t, `"enable": true`)
	s.offers(t, "offline work grows", more)
	s.apart(t, "offline work has grown", cores, 1)
	before := s.law(t)
	t.Logf("before the load: %+v", before)
	s.manifest(t, "burner.yaml", fmt.Sprintf(burner, vmName, s.online(t).Size()))
	s.eventually(t, "burner runs", func() string { return s.complete(t, ofBothSides+1) })
	s.behold(t, of, false)
	s.offers(t, "a load leaves offline work its guarantee", func(cpus int) bool { return cpus == guarantee })
	loaded := s.becomes(t, "the load moved the boundary", func(l law) bool { return l.Moves > before.Moves })
	s.remove(t, "burner")
	s.apart(t, "the load ended", cores, 1)
	s.offers(t, "the end of the load moves the boundary", more)
	s.becomes(t, "offline work grew again", func(l law) bool { return l.Moves > loaded.Moves })

	sights, err := seen.end()
	if err != nil {
		t.Fatal(err)
	}
	boundaries, err := keptApart(sights, of, cores)
	if err != nil {
		t.Error(err)
	}
	t.Logf("a witness saw the CPUs of offline containers: %s", strings.Join(boundaries, "; "))
}

// offers waits until the kernel gives an offline container such a number of CPUs. A look is one program: the looks
// themselves are a load of the online side.
func (s *second) offers(t *testing.T, what string, such func(cpus int) bool) {
	t.Helper()
	file := ""
	for _, p := range s.pods(t) {
		if isOffline(p) {
			file = fmt.Sprintf("/sys/fs/cgroup/kubepods.slice/*/*/cri-containerd-%s.scope/cpuset.cpus", containerID(p))
		}
	}
	s.eventually(t, what, func() string {
		cpus, err := cpuset.Parse(s.sh(t, "cat "+file))
		if err != nil || !such(cpus.Size()) {
			return fmt.Sprintf("offline work has %s: %v", cpus, err)
		}
		return ""
	})
}

// beheld is a container that a witness sees. A container that stays is in each of its sights.
type beheld struct {
	pod            string
	offline, stays bool
}

// behold adds the containers of the existing pods by their IDs, unless they are there.
func (s *second) behold(t *testing.T, of map[string]beheld, stays bool) {
	t.Helper()
	for name, p := range s.pods(t) {
		if _, is := of[containerID(p)]; !is {
			of[containerID(p)] = beheld{name, isOffline(p), stays}
		}
	}
}

// keptApart checks what a witness saw: each container that stays has CPUs of its own, and no core has containers of both
// sides. It returns the CPUs of the offline side in their order, of which there must be several: the boundary moved.
func keptApart(sights []sight, of map[string]beheld, cores []cpuset.Set) (boundaries []string, err error) {
	var errs []error
	for _, s := range sights {
		if s.looks < 2 {
			continue // The witness read the files one after the other. Values that it read twice were all there at one moment.
		}
		var online, offline cpuset.Set
		for id, has := range s.cpus {
			switch is, known := of[id]; {
			case known && is.offline:
				offline = offline.Union(has)
			case known:
				online = online.Union(has)
			}
		}
		for id, is := range of {
			if is.stays && s.cpus[id].IsEmpty() {
				errs = append(errs, fmt.Errorf("broken law: for %d looks %s had no CPUs of its own", s.looks, is.pod))
			}
		}
		if slices.ContainsFunc(cores, func(core cpuset.Set) bool { return core.Intersects(online) && core.Intersects(offline) }) {
			errs = append(errs, fmt.Errorf("broken law: for %d looks online containers had %s, and offline ones %s", s.looks, online, offline))
		}
		if now := offline.String(); len(boundaries) == 0 || boundaries[len(boundaries)-1] != now {
			boundaries = append(boundaries, now)
		}
	}
	if len(boundaries) < 2 {
		errs = append(errs, fmt.Errorf("the witness saw offline containers on %q only: nothing is shown", boundaries))
	}
	return boundaries, errors.Join(errs...)
}

// TestKeptApart checks what a witness may see while a boundary moves, on cores of two CPUs.
func TestKeptApart(t *testing.T) {
	t.Parallel()
	const (
		ls, be  = " a.slice/pod-1.slice/cri-containerd-ls.scope=", " a.slice/pod-2.slice/cri-containerd-be.scope="
		burns   = " a.slice/pod-3.slice/cri-containerd-burner.scope="
		unknown = " a.slice/pod-4.slice/cri-containerd-agent.scope=0-7\n"
		wide    = "9" + ls + "0-1" + be + "2-7" + unknown
		narrow  = "2" + ls + "0-5" + burns + "0-5" + be + "6-7" + unknown
	)
	of := map[string]beheld{"ls": {"online", false, true}, "be": {"offline", true, true}, "burner": {"burner", false, false}}
	var cores []cpuset.Set
	for first := 0; first < 8; first += 2 {
		cores = append(cores, cpuset.Set{}.Add(first).Add(first+1))
	}
	for name, c := range map[string]struct{ seen, want string }{
		"it moves":                         {wide + narrow + wide, ""},
		"two looks that do not fit":        {wide + "1" + ls + "0-5" + be + "2-7" + unknown + narrow, ""},
		"it does not move":                 {wide + wide, "nothing is shown"},
		"on one CPU":                       {wide + "2" + ls + "0-5" + be + "5-7" + unknown + narrow, "broken law: for 2 looks online containers had 0-5, and offline ones 5-7"},
		"on one core":                      {wide + "2" + ls + "0-4" + be + "5-7" + unknown + narrow, "broken law: for 2 looks online containers had 0-4, and offline ones 5-7"},
		"another container of the side":    {wide + "2" + ls + "0-1" + burns + "0-3" + be + "2-7" + unknown + narrow, "online containers had 0-3"},
		"a container without its own CPUs": {wide + "3" + be + "2-7" + unknown + narrow, "broken law: for 3 looks online had no CPUs"},
	} {
		sights, err := parseSights(c.seen)
		if err == nil {
			_, err = keptApart(sights, of, cores)
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// borrows starts cal-pi, which must borrow CPUs of the online side in addition to its reserved CPUs, and keep its usual
// quota.
func (s *second) borrows(t *testing.T, cores []cpuset.Set) {
	t.Helper()
	s.manifest(t, "static-burst.yaml", fmt.Sprintf(borrower, vmName))
	s.eventually(t, "cal-pi borrows", func() string {
		var own resident
		var online, offline cpuset.Set
		for _, r := range s.residents(t) {
			switch {
			case r.pod == "cal-pi":
				own = r
			case r.offline:
				offline = offline.Union(r.mask)
			default:
				online = online.Union(r.mask)
			}
		}
		shared := slices.ContainsFunc(cores, func(core cpuset.Set) bool { return core.Intersects(own.mask) && core.Intersects(offline) })
		lent := own.mask.Difference(own.claim)
		if own.claim.Size() != 2 || !own.claim.IsSubsetOf(own.mask) || own.file != own.mask || lent.IsEmpty() || !lent.IsSubsetOf(online) ||
			own.claim.Intersects(online) || shared {
			return fmt.Sprintf("%+v; online containers run on %s, offline ones on %s", own, online, offline)
		}
		return ""
	})
	p, err := s.client.CoreV1().Pods(namespace).Get(t.Context(), "cal-pi", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if has := s.kernel(t.Context(), p); has.Quota != "200000 100000" {
		t.Errorf("cal-pi has %s, want the quota of its limit", has)
	}
	s.remove(t, "cal-pi")
}

// isolate configures, as an administrator, cores for offline work on this node only, with the given fields. An empty
// text ends the isolation.
func (s *second) isolate(t *testing.T, asked string) {
	t.Helper()
	m := &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Data: map[string]string{
			"resource-threshold-config": fmt.Sprintf(`{"nodeStrategies": [{"name": "vm",
			"nodeSelector": {"matchLabels": {%q: %q}}, %s}]}`, v1.LabelHostname, vmName, asked),
			"resource-qos-config": fmt.Sprintf(`{"nodeStrategies": [{"name": "vm",
			"nodeSelector": {"matchLabels": {%q: %q}}, "beClass": {"cpuQOS": {"enable": true}}}]}`, v1.LabelHostname, vmName),
		},
	}
	maps, ctx := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem), context.WithoutCancel(t.Context())
	if asked == "" {
		if err := maps.Delete(ctx, m.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return
	}
	_, err := maps.Update(ctx, m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, m, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pods returns the existing pods by name.
func (s *second) pods(t *testing.T) map[string]*v1.Pod {
	t.Helper()
	pods, err := s.mine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*v1.Pod{}
	for i := range pods {
		all[pods[i].Name] = &pods[i]
	}
	return all
}

// cores returns the CPUs of each core.
func (s *second) cores(t *testing.T) (all []cpuset.Set) {
	t.Helper()
	for list := range strings.FieldsSeq(s.sh(t, "cat /sys/devices/system/cpu/cpu*/topology/thread_siblings_list")) {
		core, err := cpuset.Parse(list)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, core)
	}
	return all
}

// apart waits until all pods of both Deployments run and no core runs containers of both sides. The offline side must
// have at least so many cores, and only whole ones.
func (s *second) apart(t *testing.T, what string, cores []cpuset.Set, least int) {
	t.Helper()
	s.eventually(t, what, func() string {
		if why := s.complete(t, ofBothSides); why != "" {
			return why
		}
		var online, offline cpuset.Set
		there := 0
		for _, r := range s.residents(t) {
			switch {
			case r.ours && (r.file != r.mask || r.effective != r.mask):
				return fmt.Sprintf("%s: file %s, effective %s, mask %s", r.pod, r.file, r.effective, r.mask)
			case r.offline:
				offline = offline.Union(r.mask)
			default:
				online = online.Union(r.mask)
			}
			if r.ours {
				there++
			}
		}
		whole := 0
		for _, core := range cores { // once for each thread
			if core.IsSubsetOf(offline) {
				whole++
			}
			if core.Intersects(online) && core.Intersects(offline) {
				return fmt.Sprintf("online containers run on %s, offline ones on %s", online, offline)
			}
		}
		if there != ofBothSides || whole != offline.Size() || offline.Size() < 2*least {
			return fmt.Sprintf("%d containers, the offline ones on %s", there, offline)
		}
		return ""
	})
}

// complete returns an empty string if so many pods run and stay, and otherwise the reason.
func (s *second) complete(t *testing.T, want int) string {
	t.Helper()
	pods := s.pods(t)
	for name, p := range pods {
		if p.DeletionTimestamp != nil || !running(p) {
			return name + " ends or does not run yet"
		}
	}
	if len(pods) != want {
		return fmt.Sprintf("there are %d pods", len(pods))
	}
	return ""
}

// rightFromTheFirst compares the first output of such pods with their current CPUs, which is valid because the boundary
// does not move.
func (s *second) rightFromTheFirst(t *testing.T, such func(*v1.Pod) bool) {
	t.Helper()
	has := map[string]cpuset.Set{}
	for _, r := range s.residents(t) {
		has[r.pod] = r.mask
	}
	seen := 0
	for name, p := range s.pods(t) {
		if !such(p) {
			continue
		}
		seen++
		first := s.sh(t, fmt.Sprintf(`sed -n 's/.*Cpus_allowed_list:\t//p' /var/log/pods/%s_%s_%s/app/*.log`, namespace, name, p.UID))
		if first != has[name].String() {
			t.Errorf("%s printed %q first, and has %s", name, first, has[name])
		}
	}
	if seen == 0 {
		t.Error("there is no such pod")
	}
}
