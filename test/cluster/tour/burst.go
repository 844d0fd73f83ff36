package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/proof/load"
)

const (
	// loaded is how long the server is under load by default. settled is how long the agent has to raise its quota
	// before that.
	loaded  = 20 * time.Second
	settled = 4 * time.Second
	// work is the CPU time of a request.
	work = 1200 * time.Microsecond
	// policy lets the pod burst.
	policy = `annotations: {koordinator.sh/cpuBurst: '{"policy": "cfsQuotaBurstOnly"}'}`
)

// burst shows a server under the same load twice, with only its limit and with a CPU burst.
func (t *tour) burst(ctx context.Context) error {
	t.title("A server limited to half a CPU, under bursts that need more")
	arrivals, err := load.Pattern{Seed: 1, Rate: 5, Batch: 40}.Arrivals(t.loaded)
	if err != nil {
		return err
	}
	node, err := t.smallest(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-tour-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer t.leave() //nolint:contextcheck // before the manifest goes
	w := tabwriter.NewWriter(t.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nPOLICY\tP50\tP99\tMEAN USE OF THE NODE")
	for _, arm := range []struct{ name, annotation string }{
		{"none", "labels: {app: server}"},
		{"cfsQuotaBurstOnly", policy},
	} {
		line, err := t.arm(ctx, dir, fmt.Sprintf(limited, node.Name, arm.annotation), arrivals)
		if err != nil {
			return fmt.Errorf("policy %s: %w", arm.name, err)
		}
		fmt.Fprintf(w, "%s\t%s\n", arm.name, line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	t.say("\nOn a busy machine the agent raises less (sharePoolThresholdPercent); %d CPUs, %s of load each.", runtime.NumCPU(), t.loaded)
	return nil
}

// arm measures one server and removes it.
func (t *tour) arm(ctx context.Context, dir, text string, arrivals []time.Duration) (string, error) {
	file, err := manifest(dir, "server.yaml", text)
	if err != nil {
		return "", err
	}
	t.applied = append(t.applied, file)
	if _, err := t.quiet(ctx, "apply", "-n", namespace, "-f", file); err != nil {
		return "", err
	}
	if runs, err := t.await(ctx, runLimit); err != nil || !runs {
		return "", fmt.Errorf("not running after %s: %w", runLimit, err)
	}
	if err := load.Pause(ctx, settled); err != nil {
		return "", err
	}
	pod, err := t.client.CoreV1().Pods(namespace).Get(ctx, "server", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	before := busy()
	samples, err := load.Generator{Address: pod.Status.PodIP + ":8080", Work: work}.Run(ctx, arrivals)
	if err != nil {
		return "", err
	}
	used := (busy() - before) / t.loaded.Seconds() / float64(runtime.NumCPU()) * 100
	t.leave() //nolint:contextcheck // it has its own
	sorted := load.Sorted(samples)
	return fmt.Sprintf("%s\t%s\t%.0f %%", quantile(sorted, 0.5), quantile(sorted, 0.99), used), nil
}

func quantile(sorted []time.Duration, q float64) string {
	v, ok := load.Quantile(sorted, q)
	if !ok {
		return "n/a"
	}
	return v.Round(100 * time.Microsecond).String()
}

// busy returns the CPU time of the machine in seconds, from the first line of /proc/stat.
func busy() float64 {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(data), "\n")
	var user, nice, system float64
	if _, err := fmt.Sscanf(first, "cpu %g %g %g", &user, &nice, &system); err != nil {
		return 0
	}
	const hertz = 100 // USER_HZ
	return (user + nice + system) / hertz
}

// freed waits until the neighbor has all CPUs, and shows them.
func (t *tour) freed(ctx context.Context) error {
	for range 20 {
		if err := load.Pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
		pod, err := t.client.CoreV1().Pods(namespace).Get(ctx, "neighbour", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if t.kernel(ctx, pod).CPUs == fmt.Sprintf("0-%d", runtime.NumCPU()-1) {
			break
		}
	}
	return t.table(ctx)
}
