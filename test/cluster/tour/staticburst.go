package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/patience"
)

const (
	demoName = "go-demo"
	// documentLimit is the limit of each pod of the manifests, in CPUs.
	documentLimit = 4
	// piQuota is the quota of cal-pi's limit, which a pod with static-burst keeps.
	piQuota = "400000 100000"
	// documentDigits is how many digits cal-pi computes.
	documentDigits = 20000
	// lendLimit is how long the agent may take until cal-pi borrows, in time during which the machine gave it CPU. While
	// cal-pi computes, its quota throttles it; after that it waits for a minute or two (docs/isolate.md).
	lendLimit = 6 * time.Minute
)

// calPi is cal-pi of the documentation as it borrows: with the annotation that is a comment there, and with a
// program that stays when it has computed.
type calPi struct {
	pod *v1.Pod
	// reserved are the CPUs of its placement.
	reserved cpuset.Set
}

// lends shows cal-pi with the policy static-burst. It borrows cores until go-demo comes, which gets all cores of the
// node but one, and borrows again when go-demo has gone. A witness reads the files of the kernel meanwhile. cal-pi
// computes so many digits before. The result shown is false if no node is large enough.
func (t *tour) lends(ctx context.Context, digits int) (shown bool, err error) {
	t.title("cal-pi with static-burst borrows cores, and leaves them before another pod has them")
	node, err := t.largest(ctx)
	if err != nil {
		return false, err
	}
	cpus := node.Status.Allocatable.Cpu()
	if cpus.Value() < manyCPUs {
		t.say("cal-pi has 4 CPUs, and each pod of go-demo has 4. The node needs %d CPUs, and the largest node here has %s.", manyCPUs, cpus)
		return false, nil
	}
	return true, t.lendsOn(ctx, node.Name, cpus.Value(), digits)
}

// lendsOn is lends on a node with so many CPUs.
func (t *tour) lendsOn(ctx context.Context, node string, cpus int64, digits int) error {
	if err := t.pinnable(ctx, node); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-tour-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer t.leave() //nolint:contextcheck // before the manifests go
	pi, err := borrowing(dir, node, digits)
	if err != nil {
		return err
	}
	const shared = 2 // CPUs that stay for all other pods
	pods := (cpus-shared)/documentLimit - 1
	demo, err := changed(dir, "go-demo.yaml", node, [2]string{"replicas: 4", fmt.Sprintf("replicas: %d", pods)})
	if err != nil {
		return err
	}
	b, wide, err := t.borrows(ctx, pi)
	if err != nil {
		return err
	}
	t.say("\nIt has %d CPUs reserved and borrows %d. Now %d pods of go-demo come, each with %d exclusive CPUs. They need cores that cal-pi borrows:",
		b.reserved.Size(), wide-b.reserved.Size(), pods, documentLimit)
	// go-demo comes after the first look, which sees the CPUs that cal-pi borrows.
	seen, err := t.witness(ctx, node, "/run/berth-tour-witness", closely)
	if err != nil {
		return err
	}
	others, err := t.comeAndGo(ctx, b, wide, demo)
	sights, seeErr := seen.end() //nolint:contextcheck // also after ctx ended
	if err := errors.Join(err, seeErr); err != nil {
		return err
	}
	err = b.judge(sights, others)
	if err == nil {
		t.say("\nAt no look had two of these pods an exclusive CPU together, and cal-pi always had its reserved CPUs.")
	}
	return errors.Join(err, t.history(b, sights, others))
}

// borrowing writes the manifest of cal-pi as it borrows, and returns the file.
func borrowing(dir, node string, digits int) (string, error) {
	return changed(dir, "cal-pi.yaml", node, [2]string{"#cpu-policy:", "cpu-policy:"},
		[2]string{fmt.Sprintf("value: %q", strconv.Itoa(documentDigits)), fmt.Sprintf("value: %q", strconv.Itoa(digits))},
		[2]string{`value: "3000"`, "value: \"3000\"\n    - name: stay\n      value: \"yes\""})
}

// changed writes a manifest of the documentation for one node, with changes of its text, and returns the file.
func changed(dir, name, node string, changes ...[2]string) (string, error) {
	file, err := seed(name)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := string(content)
	const first = "containers:"
	before := text[:strings.Index(text, first)]
	indent := before[strings.LastIndex(before, "\n"):]
	for _, change := range append(changes, [2]string{first, "nodeSelector: {kubernetes.io/hostname: " + node + "}" + indent + first}) {
		if strings.Count(text, change[0]) != 1 {
			return "", fmt.Errorf("%s: %q is not there once", file, change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return manifest(dir, filepath.Base(name), text)
}

// borrows applies cal-pi, and waits until it borrows. It returns how many CPUs it has then.
func (t *tour) borrows(ctx context.Context, file string) (b calPi, wide int, err error) {
	if err := t.apply(ctx, file); err != nil {
		return b, 0, err
	}
	if runs, err := t.await(ctx, runLimit); err != nil || !runs {
		return b, 0, fmt.Errorf("cal-pi: not running after %s: %w", runLimit, err)
	}
	if b.pod, err = t.client.CoreV1().Pods(namespace).Get(ctx, piName, metav1.GetOptions{}); err != nil {
		return b, 0, err
	}
	placed, problems := v1alpha1.DecodePlacement(b.pod.Annotations[v1alpha1.AnnotationPlacement])
	if err := problems.Err(); err != nil {
		return b, 0, fmt.Errorf("cal-pi: %w", err)
	}
	if b.reserved, err = cpuset.Parse(placed.Containers[piName].CPUs); err != nil || b.reserved.Size() != documentLimit {
		return b, 0, fmt.Errorf("cal-pi: reserved CPUs %q, want %d: %w", placed.Containers[piName].CPUs, documentLimit, err)
	}
	t.say("\ncal-pi computes, then waits. While its quota throttles it, it has its reserved CPUs only, and for a minute or two after that.")
	if wide, err = t.widens(ctx, b, documentLimit+1); err != nil {
		return b, 0, err
	}
	return b, wide, t.table(ctx)
}

// widens waits until cal-pi has at least so many CPUs, with those reserved for it and the quota of its limit. It
// returns their number.
func (t *tour) widens(ctx context.Context, b calPi, least int) (wide int, err error) {
	limited, _, cancel := patience.WithLimit(ctx, lendLimit)
	defer cancel()
	err = patience.Until(limited, settled/4, func() string {
		has := t.kernel(limited, b.pod)
		cpus, err := cpuset.Parse(has.CPUs)
		wide = cpus.Size()
		if err != nil || wide < least || !b.reserved.IsSubsetOf(cpus) || has.Quota != piQuota {
			return fmt.Sprintf("cal-pi has %s, want %d CPUs with %s, and the quota %s", has, least, b.reserved, piQuota)
		}
		return ""
	})
	return wide, err
}

// comeAndGo applies go-demo, deletes it when its pods run, and waits until cal-pi borrows as before. It returns the
// names of go-demo's pods by the IDs of their containers.
func (t *tour) comeAndGo(ctx context.Context, b calPi, wide int, file string) (map[string]string, error) {
	if err := t.apply(ctx, file); err != nil {
		return nil, err
	}
	others, err := t.demos(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.table(ctx); err != nil {
		return nil, err
	}
	if has := t.kernel(ctx, b.pod).Quota; has != piQuota {
		return nil, fmt.Errorf("cal-pi beside go-demo has the quota %q, want %q", has, piQuota)
	}
	if _, err := t.quiet(ctx, "delete", "deployment", demoName, "-n", namespace, "--wait"); err != nil {
		return nil, err
	}
	t.say("\nWithout go-demo, cal-pi borrows again:")
	if err := t.alone(ctx); err != nil {
		return nil, err
	}
	if _, err := t.widens(ctx, b, wide); err != nil {
		return nil, err
	}
	return others, t.table(ctx)
}

// alone waits until cal-pi is the only pod.
func (t *tour) alone(ctx context.Context) error {
	return patience.Until(ctx, settled/4, func() string {
		pods, err := t.mine(ctx)
		if err != nil || len(pods) != 1 {
			return fmt.Sprintf("there are %d pods, %v", len(pods), err)
		}
		return ""
	})
}

// demos waits until all pods run, and returns the names of go-demo's.
func (t *tour) demos(ctx context.Context) (map[string]string, error) {
	if err := patience.Until(ctx, settled/4, func() string {
		d, err := t.client.AppsV1().Deployments(namespace).Get(ctx, demoName, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if d.Status.ReadyReplicas != *d.Spec.Replicas {
			return fmt.Sprintf("%d of %d pods of go-demo run", d.Status.ReadyReplicas, *d.Spec.Replicas)
		}
		return ""
	}); err != nil {
		return nil, errors.Join(err, t.table(ctx))
	}
	pods, err := t.mine(ctx)
	if err != nil {
		return nil, err
	}
	others := map[string]string{}
	for i := range pods {
		if p := &pods[i]; strings.HasPrefix(p.Name, demoName) {
			others[containerID(p)] = p.Name
		}
	}
	return others, nil
}

// containerID returns the ID of a pod's only container.
func containerID(p *v1.Pod) string {
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}

// judge checks the sights in which cal-pi is. It always has its reserved CPUs, and no CPU of another pod. It borrowed
// CPUs that another pod had then, and borrowed in the end.
func (b calPi) judge(sights []sight, others map[string]string) error {
	var errs []error
	var borrowed, yielded, has cpuset.Set
	for _, s := range sights {
		if has = s.cpus[containerID(b.pod)]; has.IsEmpty() {
			return errors.Join(append(errs, errors.New("the witness does not see cal-pi"))...)
		}
		borrowed = borrowed.Union(has.Difference(b.reserved))
		if !b.reserved.IsSubsetOf(has) {
			errs = append(errs, fmt.Errorf("broken law: cal-pi had CPUs %s, and %s are reserved for it", has, b.reserved))
		}
		taken := has
		for id, name := range others {
			cpus := s.cpus[id]
			yielded = yielded.Union(cpus.Intersect(borrowed))
			// The witness read the files one after the other. Values that it read twice were all there at one moment.
			if both := cpus.Intersect(taken); s.looks > 1 && !both.IsEmpty() {
				errs = append(errs, fmt.Errorf("broken law: %s and another pod had the exclusive CPUs %s together, for %d looks", name, both, s.looks))
			}
			taken = taken.Union(cpus)
		}
	}
	if yielded.IsEmpty() {
		errs = append(errs, fmt.Errorf("no pod got CPUs that cal-pi borrowed, %s: nothing is shown", borrowed))
	}
	if has == b.reserved {
		errs = append(errs, errors.New("in the end cal-pi borrows nothing"))
	}
	return errors.Join(errs...)
}

// history prints what the witness saw of the pods.
func (t *tour) history(b calPi, sights []sight, others map[string]string) error {
	type line struct{ pi, demo string }
	var lines []line
	var looks []int
	all := 0
	for _, s := range sights {
		var demo cpuset.Set
		for id := range others {
			demo = demo.Union(s.cpus[id])
		}
		now := line{s.cpus[containerID(b.pod)].String(), dash(demo.String())}
		if len(lines) == 0 || lines[len(lines)-1] != now {
			lines, looks = append(lines, now), append(looks, 0)
		}
		looks[len(looks)-1] += s.looks
		all += s.looks
	}
	t.say("What a witness on the node saw, which read the CPU sets of all containers %d times meanwhile:", all)
	w := tabwriter.NewWriter(t.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nLOOKS\tCAL-PI\tRESERVED\tGO-DEMO, ALL PODS")
	for i, l := range lines {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", looks[i], l.pi, b.reserved, l.demo)
	}
	return w.Flush()
}
