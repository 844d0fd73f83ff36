package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/test/cluster/local"
	"github.com/berth-project/berth/test/patience"
)

const (
	// costContainers is the number of containers of a pod; one shim serves them all.
	costContainers = 4
	// costLimit is the limit of a container in CPUs.
	costLimit = 0.1
	// raiseAllLimit is how long no further quota may be raised: the start of the pods takes all CPUs of a small machine, and
	// the node guard remembers that for 90 s.
	raiseAllLimit = 3 * time.Minute
	// clusterGroup is the group of all processes of the cluster.
	clusterGroup = local.Group
)

// idlePod returns a pod of containers that do nothing, whose quotas the agent raises.
func idlePod(name string) *v1.Pod {
	grace := int64(1)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationCPUBurst: fmt.Sprintf(`{"policy": %q}`, bench.DefaultBurst().Policy)}},
		Spec: v1.PodSpec{
			NodeSelector: map[string]string{v1.LabelHostname: local.NodeName}, RestartPolicy: v1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
		},
	}
	for i := range costContainers {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: fmt.Sprintf("idle%d", i), Image: local.PauseImage, ImagePullPolicy: v1.PullIfNotPresent,
			Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2m")},
				Limits:   v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(1000*costLimit, resource.DecimalSI)},
			},
		})
	}
	return pod
}

// crowd creates the pods, and waits until the agent has raised all of them. It returns the names of those it created.
func (b *costBench) crowd(ctx context.Context) (names []string, err error) {
	for i := range b.pods {
		pod := idlePod(fmt.Sprintf("idle-%d", i))
		if _, err := b.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return names, err
		}
		names = append(names, pod.Name)
	}
	if all, err := b.await(ctx, runLimit); err != nil || !all {
		return names, errors.Join(fmt.Errorf("the %d pods do not run", b.pods), err)
	}
	return names, b.allRaised(ctx)
}

// allRaised waits until the quota of each container is above its limit.
func (b *costBench) allRaised(ctx context.Context) error {
	limited, progress, cancel := patience.WithLimit(ctx, raiseAllLimit)
	defer cancel()
	most := 0
	return patience.Until(limited, time.Second, func() string {
		n, err := b.raised(limited)
		if n > most {
			most = n
			progress()
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// raised returns how many containers have a quota above their limit now. The error says if some do not.
func (b *costBench) raised(ctx context.Context) (int, error) {
	text, err := local.AgentMetrics(ctx)
	if err != nil {
		return 0, err
	}
	n, all := raisedIn(text), b.pods*costContainers
	if n < all {
		return n, fmt.Errorf("%d of %d containers have a raised quota: is the machine too busy for bursting?", n, all)
	}
	return n, nil
}

// raisedIn returns how many containers of the benchmark have a quota above their limit, by the agent's metrics.
func raisedIn(text []byte) (n int) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		labels, value, _ := strings.Cut(lines.Text(), "} ")
		mine := strings.HasPrefix(labels, "berth_cpu_quota_cpus{") && strings.Contains(labels, `container="idle`) &&
			strings.Contains(labels, fmt.Sprintf("namespace=%q,", namespace))
		if quota, err := strconv.ParseFloat(value, 64); err == nil && mine && quota > 1.01*costLimit {
			n++
		}
	}
	return n
}

// agentProcesses returns the processes in the group of the agent's container on this node.
func (b *costBench) agentProcesses(ctx context.Context) ([]int, error) {
	pods, err := b.client.CoreV1().Pods(agentSpace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + local.NodeName})
	if err != nil {
		return nil, fmt.Errorf("find the agent: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		owner := metav1.GetControllerOf(pod)
		if owner == nil || owner.Kind != "DaemonSet" || owner.Name != agentSet || len(pod.Status.ContainerStatuses) != 1 || containerID(pod) == "" {
			continue
		}
		return processesOf("/proc", containerID(pod))
	}
	return nil, fmt.Errorf("no pod of DaemonSet %s with one started container on node %s", agentSet, local.NodeName)
}

// processesOf returns the processes in the groups of a container: those whose last name is its ID, in each layout.
func processesOf(proc, id string) ([]int, error) {
	pids, err := processesIn(proc, func(group string) bool { return filepath.Base(group) == id })
	if err == nil && len(pids) == 0 {
		err = fmt.Errorf("container %s has no processes", id)
	}
	return pids, err
}

// processesIn returns the processes with a group that is wanted, in any hierarchy.
func processesIn(proc string, wanted func(group string) bool) (pids []int, err error) {
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "cgroup"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process ended
		}
		in := slices.ContainsFunc(strings.Fields(string(text)), func(line string) bool {
			fields := strings.SplitN(line, ":", 3) // number, controllers, group
			return len(fields) == 3 && wanted(fields[2])
		})
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); in && err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// clusterTime returns the CPU time of the processes of the cluster and of their children that ended. Version 1 has no
// group that counts it: its servers are in the cluster's group of one hierarchy only, that of the controller pids.
func clusterTime(proc string) (sum time.Duration, err error) {
	pids, err := processesIn(proc, func(group string) bool { return strings.HasPrefix(group+"/", clusterGroup+"/") })
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
		if err != nil {
			continue // the process ended
		}
		used, err := ticksOf(string(text))
		if err != nil {
			return 0, fmt.Errorf("process %d: %w", pid, err)
		}
		sum += used
	}
	return sum, nil
}

// ticksOf returns utime, stime, cutime and cstime of a file /proc/PID/stat, whose second field may contain blanks and
// parentheses.
func ticksOf(stat string) (sum time.Duration, err error) {
	const first, end = 11, 15 // after the parenthesis
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < end {
		return 0, fmt.Errorf("stat %q: too short", stat)
	}
	for _, field := range fields[first:end] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stat %q: %w", stat, err)
		}
		sum += time.Duration(n) * time.Second / hertz
	}
	return sum, nil
}

// threadCost is what one thread used, in ms and switches a second.
type threadCost struct {
	ID       int     `json:"id"`
	Millis   float64 `json:"millisPerSecond"`
	Switches float64 `json:"switchesPerSecond"`
}

// traced looks at each thread of the agent's processes for a while; the thread with the most CPU time comes first.
func (b *costBench) traced(ctx context.Context, pids []int) ([]threadCost, error) {
	before, begin := threadsOf("/proc", pids), time.Now()
	if err := load.Pause(ctx, b.trace); err != nil {
		return nil, err
	}
	return threadsSince(before, threadsOf("/proc", pids), time.Since(begin).Seconds()), nil
}

// threadsOf returns the CPU time, in ms, and the switches of each thread of processes since it began. A thread that ends
// meanwhile is left out.
func threadsOf(proc string, pids []int) map[int]threadCost {
	all := map[int]threadCost{}
	for _, pid := range pids {
		tasks, _ := filepath.Glob(filepath.Join(proc, strconv.Itoa(pid), "task", "[0-9]*"))
		for _, task := range tasks {
			ran, err1 := os.ReadFile(filepath.Join(task, "schedstat"))
			status, err2 := os.ReadFile(filepath.Join(task, "status"))
			tid, err3 := strconv.Atoi(filepath.Base(task))
			t := threadCost{ID: tid}
			if _, err := fmt.Sscan(string(ran), &t.Millis); errors.Join(err, err1, err2, err3) != nil {
				continue
			}
			t.Millis /= 1e6
			for line := range strings.Lines(string(status)) {
				if _, count, found := strings.Cut(line, "voluntary_ctxt_switches:"); found { // and nonvoluntary
					n, _ := strconv.ParseFloat(strings.TrimSpace(count), 64)
					t.Switches += n
				}
			}
			all[tid] = t
		}
	}
	return all
}

// threadsSince returns what threads used in the seconds between two looks; the one with the most CPU time comes first.
func threadsSince(before, after map[int]threadCost, seconds float64) (all []threadCost) {
	for id, now := range after {
		was := before[id]
		all = append(all, threadCost{ID: id, Millis: (now.Millis - was.Millis) / seconds, Switches: (now.Switches - was.Switches) / seconds})
	}
	slices.SortFunc(all, func(a, b threadCost) int { return cmp.Or(cmp.Compare(b.Millis, a.Millis), cmp.Compare(a.ID, b.ID)) })
	return all
}
