package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/seeds"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	apacheName = "apache-demo"
	// serveFile makes a file of %d bytes from that of the image, and serves it. The shell has an httpd of its own.
	serveFile = "head -c %d /var/www/static/file.1m.test >/var/www/static/seed && exec /usr/sbin/httpd -D FOREGROUND"
)

// apachePods are servers that compress a file. The ConfigMap of the document lets those with its label burst.
type apachePods struct{ *seedBench }

func (b *seedBench) openApache(ctx context.Context) (seeds.Opened, error) {
	file, err := seed(burstConfig)
	if err != nil {
		return nil, err
	}
	b.applied = append(b.applied, file)
	if _, err := b.quiet(ctx, "apply", "-f", file); err != nil {
		b.leave() //nolint:contextcheck // also after ctx ended
		return nil, err
	}
	return apachePods{b}, nil
}

// Load implements seeds.Opened.
func (a apachePods) Load() string {
	return seeds.ApacheLoad(a.limit) + "; apache is a pod, which the document's ConfigMap lets burst by its label"
}

// Close implements seeds.Opened.
func (a apachePods) Close() error {
	a.leave()
	return nil
}

// server returns the server of an arm: that of the document, with its label for a burst, and without a limit for the arm
// that has none.
func (a apachePods) server(arm string) *v1.Pod {
	pod := a.pod(apacheName, apacheImage, request)
	pod.Spec.Containers[0].Command = []string{"sh", "-c", fmt.Sprintf(serveFile, seeds.ApacheFile(a.limit))}
	if arm == seeds.Burst {
		pod.Labels["app"] = apacheName
	}
	if arm != seeds.Unlimited {
		limitTo(pod, float64(a.limit))
	}
	return pod
}

// Run implements seeds.Opened.
func (a apachePods) Run(ctx context.Context, arm seeds.Arm) (v seeds.Values, err error) {
	arrivals, err := seeds.ApacheArrivals(arm)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, a.gone(apacheName)) }() //nolint:contextcheck // also after ctx ended
	pod, err := a.start(ctx, a.server(arm.Name))
	if err != nil {
		return v, err
	}
	m, err := openMeters(a.host, pod)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, m.container.Close(), m.pod.Close()) }()
	address := pod.Status.PodIP + ":8010"
	missing := func() string {
		is, err := m.container.Bandwidth()
		if err != nil {
			return err.Error()
		}
		return quotaMissing(arm.Name, unit.CPUs(a.limit), is)
	}
	if err := ready(ctx, address, missing); err != nil {
		return v, err
	}
	outcome, raw, err := m.loaded(ctx, load.Generator{Address: address, Path: "/static/seed", Encoding: "deflate, gzip"}, arrivals)
	if err != nil {
		return v, err
	}
	for _, s := range outcome.Samples {
		if s.Status != 200 {
			return v, fmt.Errorf("%w: apache answers %d after %s", bench.ErrChild, s.Status, s.Latency.Round(time.Millisecond))
		}
	}
	if arm.Name != seeds.Burst { // Berth may lower a raised quota again.
		err = still(arm, missing())
	}
	return seeds.Values{Samples: outcome.Samples, Of: map[string]float64{}, Raw: raw}, err
}

// loaded sends the arrivals, and returns also the quotas before and after, and the throttled periods, as text.
func (m meters) loaded(ctx context.Context, generator load.Generator, arrivals []time.Duration) (outcome bench.Outcome, raw string, err error) {
	var text strings.Builder
	quotas := func(when string) error {
		container, err := m.container.Bandwidth()
		if err != nil {
			return err
		}
		pod, err := m.pod.Bandwidth()
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "quota %s the load, in CPUs, 0 for none: container %.3f, pod %.3f\n", when,
			granted(container.Limit(), container.Quota), granted(pod.Limit(), pod.Quota))
		return nil
	}
	if err := quotas("before"); err != nil {
		return outcome, "", err
	}
	before, err := m.pod.Counters()
	if err != nil {
		return outcome, "", err
	}
	if outcome, err = m.container.Load(ctx, generator, arrivals); err != nil {
		return outcome, "", err
	}
	after, err := m.pod.Counters()
	if err != nil {
		return outcome, "", err
	}
	fmt.Fprintf(&text, "throttled periods: container %d of %d, pod %d of %d\n", outcome.Throttled, outcome.Periods,
		after.Throttled-before.Throttled, after.Periods-before.Periods)
	fmt.Fprintf(&text, "mean use of the container: %.3f CPUs\n", outcome.CPU.Seconds()/outcome.Elapsed.Seconds())
	err = quotas("after")
	return outcome, text.String(), err
}
