package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/seeds"
	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/patience"
)

const (
	redisName   = "redis"
	clientsName = "redis-benchmark"
	spreadName  = "spread"
	redisImage  = "redis:6.0.5"
	spreadImage = "berth-spread:1"
	// opening lets a program have as many connections as its container may have.
	opening = `ulimit -n $(ulimit -H -n); exec "$@"`
	// nearMemory lets the agent move the pages of a pod to the NUMA node of its CPUs.
	nearMemory = `{"policy": "bestEffort"}`
)

// redisPods are Redis in a pod with exclusive CPUs, and its clients in another pod. A container beside Redis spreads
// its pages. The agent moves the pages of the pod with the annotation.
type redisPods struct {
	*seedBench

	load bench.RedisLoad
}

// openRedis gives the agents the rights to move pages, until Close.
func (b *seedBench) openRedis(ctx context.Context) (_ seeds.Opened, err error) {
	if b.numa < 2 {
		return nil, fmt.Errorf("%w a second NUMA node with CPUs and memory", bench.ErrMissing)
	}
	r := &redisPods{b, seeds.RedisLoad(b.options.Quick)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close()) //nolint:contextcheck // also after ctx ended
		}
	}()
	if err := b.deploy(ctx, "hostpid"); err != nil {
		return nil, err
	}
	if err := b.pinnable(ctx, b.node); err != nil {
		return nil, err
	}
	clients := b.pod(clientsName, redisImage, request)
	clients.Spec.Containers[0].Command = []string{"sleep", "1000000"}
	if _, err := b.start(ctx, clients); err != nil {
		return nil, err
	}
	return r, nil
}

// Load implements seeds.Opened.
func (r *redisPods) Load() string {
	return fmt.Sprintf("%d keys, %d requests a run for all keys, from a pod without CPUs of its own; redis in a pod with %d exclusive CPUs; the agent moves its pages in arm %s, by the annotation of the document",
		r.load.Keys, r.load.Requests, r.limit, bench.MixedMoved)
}

// Close implements seeds.Opened.
func (r *redisPods) Close() error {
	ctx, _, cancel := patience.WithLimit(context.Background(), runLimit)
	defer cancel()
	return errors.Join(r.gone(clientsName), r.deploy(ctx, "agent"))
}

// server returns Redis, and beside it the program that spreads its pages.
func (r *redisPods) server() *v1.Pod {
	pod := r.pod(redisName, redisImage, whole(r.limit))
	limitTo(pod, float64(r.limit))
	pod.Annotations[v1alpha1.AnnotationCPUSetScheduler] = v1alpha1.CPUSetSchedulerOn
	pod.Spec.Containers[0].Command = []string{
		"sh", "-c", opening, "sh", "redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--appendonly", "no",
		"--dir", "/tmp", "--maxclients", "20000", "--io-threads", whole(r.limit),
	}
	together := true
	pod.Spec.ShareProcessNamespace = &together
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
		Name: spreadName, Image: spreadImage, ImagePullPolicy: v1.PullIfNotPresent, Args: []string{"wait"},
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(request)}},
	})
	return pod
}

// Run implements seeds.Opened.
func (r *redisPods) Run(ctx context.Context, a seeds.Arm) (v seeds.Values, err error) {
	defer func() { err = errors.Join(err, r.gone(redisName)) }() //nolint:contextcheck // also after ctx ended
	pod, err := r.start(ctx, r.server())
	if err != nil {
		return v, err
	}
	address := pod.Status.PodIP
	if err := inForce(ctx, func() string { return r.silent(ctx, address) }); err != nil {
		return v, err
	}
	if err := r.fill(ctx, address); err != nil {
		return v, err
	}
	before, err := r.spread(ctx, whole(shareOf(a.Name)))
	if err == nil && a.Name == bench.MixedMoved {
		before, err = r.moved(ctx)
	}
	if err != nil {
		return v, err
	}
	if why := spreadMissing(a.Name, before); why != "" {
		return v, fmt.Errorf("%w: arm %s: %s", bench.ErrChild, a.Name, why)
	}
	v.Of = map[string]float64{}
	v.Raw = fmt.Sprintf("%.2f %% of the pages are local before the load\n", before)
	for _, clients := range r.load.Clients {
		if err := r.requests(ctx, address, clients, &v); err != nil {
			return v, err
		}
	}
	after, err := r.spread(ctx)
	v.Raw += fmt.Sprintf("%.2f %% of the pages are local after the load\n", after)
	return v, err
}

// silent says why the server does not answer yet, "" if it does.
func (r *redisPods) silent(ctx context.Context, address string) string {
	said, err := r.quiet(ctx, "exec", "-n", namespace, clientsName, "--", "redis-cli", "-h", address, "ping")
	if err != nil || strings.TrimSpace(string(said)) != "PONG" {
		return fmt.Sprintf("redis answers %q, %v", said, err)
	}
	return ""
}

// fill loads the keys.
func (r *redisPods) fill(ctx context.Context, address string) error {
	in, out := io.Pipe()
	var sending errgroup.Group
	sending.Go(func() error { return out.CloseWithError(r.load.Commands(out)) })
	said, err := r.fed(ctx, in, "exec", "-i", "-n", namespace, clientsName, "--", "redis-cli", "-h", address, "--pipe")
	_ = in.Close() // The sender ends then.
	if err := errors.Join(err, sending.Wait()); err != nil {
		return fmt.Errorf("load keys: %w", err)
	}
	if want := fmt.Sprintf("errors: 0, replies: %d", r.load.Keys); !strings.Contains(string(said), want) {
		return fmt.Errorf("load keys: %w: redis-cli printed %q, want %q", bench.ErrChild, said, want)
	}
	return nil
}

// spread runs the program beside Redis, and returns the percentage of local pages.
func (r *redisPods) spread(ctx context.Context, percent ...string) (float64, error) {
	said, err := r.quiet(ctx, append([]string{"exec", "-n", namespace, redisName, "-c", spreadName, "--", "/usr/bin/spread"}, percent...)...)
	if err != nil {
		return 0, err
	}
	local, err := strconv.ParseFloat(strings.TrimSpace(string(said)), 64)
	if err != nil {
		return 0, fmt.Errorf("spread printed %q: %w", said, err)
	}
	return local, nil
}

// moved has the agent move the pages to the local node, as the document does, and returns the percentage of local pages
// when the agent says that it has.
func (r *redisPods) moved(ctx context.Context) (float64, error) {
	if _, err := r.quiet(ctx, "annotate", "-n", namespace, "pod", redisName, v1alpha1.AnnotationMemoryLocality+"="+nearMemory); err != nil {
		return 0, err
	}
	if err := patience.Until(ctx, settled/4, func() string {
		pod, err := r.client.CoreV1().Pods(namespace).Get(ctx, redisName, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		said, status := pod.Annotations[v1alpha1.AnnotationMemoryLocalityStatus], v1alpha1.MemoryLocalityStatus{}
		if json.Unmarshal([]byte(said), &status) != nil || status.Phase != v1alpha1.MemoryLocalityPhaseCompleted {
			return fmt.Sprintf("the status is %q", said)
		}
		return ""
	}); err != nil {
		return 0, fmt.Errorf("pages of %s: %w", redisName, err)
	}
	return r.spread(ctx)
}

// requests runs redis-benchmark with so many clients.
func (r *redisPods) requests(ctx context.Context, address string, clients int, v *seeds.Values) error {
	said, err := r.quiet(ctx, "exec", "-n", namespace, clientsName, "--", "sh", "-c", opening, "sh", "redis-benchmark", "-h", address,
		"-t", "get", "--precision", "3", "-d", strconv.Itoa(r.load.Size), "-n", strconv.Itoa(r.load.Requests),
		"-c", strconv.Itoa(clients), "-r", strconv.Itoa(r.load.Keys))
	if err != nil {
		return err
	}
	v.Raw += string(said)
	var run bench.RedisRun
	if err := run.Parse(string(said)); err != nil {
		return fmt.Errorf("%d clients: %w", clients, err)
	}
	for name, value := range map[string]float64{"QPS": run.QPS, "p99": run.P99, "p99.99": run.P9999} {
		v.Of[fmt.Sprintf("%s, %d clients", name, clients)] = value
	}
	return nil
}

// shareOf is the percentage of local pages with which an arm begins.
func shareOf(arm string) int {
	switch arm {
	case bench.AllLocal:
		return 100
	case bench.AllRemote:
		return 0
	}
	return bench.MixedPercent
}

// spreadMissing says what is wrong with the percentage of local pages of an arm, "" for nothing. Some pages of every
// program cannot move.
func spreadMissing(arm string, local float64) string {
	const some = 10
	want := float64(shareOf(arm))
	if arm == bench.MixedMoved {
		want = 100
	}
	if local < want-some || local > want+some {
		return fmt.Sprintf("%.2f %% of the pages are local, want about %.0f %%", local, want)
	}
	return ""
}

// applyDeploy applies a directory of deploy, as its documentation says.
func (t *tour) applyDeploy(ctx context.Context, dir string) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	_, err = t.quiet(ctx, "apply", "-k", filepath.Join(root, "deploy", dir))
	return err
}

// deploy applies a directory of deploy and waits until every agent runs that version.
func (t *tour) deploy(ctx context.Context, dir string) error {
	if err := t.applyDeploy(ctx, dir); err != nil {
		return err
	}
	if err := patience.Until(ctx, settled/4, func() string {
		d, err := t.client.AppsV1().DaemonSets(agentSpace).Get(ctx, agentSet, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		n := d.Status
		if n.ObservedGeneration < d.Generation || n.UpdatedNumberScheduled < n.DesiredNumberScheduled || n.NumberReady < n.DesiredNumberScheduled {
			return fmt.Sprintf("%d of %d are new, %d ready", n.UpdatedNumberScheduled, n.DesiredNumberScheduled, n.NumberReady)
		}
		return ""
	}); err != nil {
		return fmt.Errorf("the agents of deploy/%s: %w", dir, err)
	}
	return nil
}
