package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/seeds"
)

const (
	hogs = "hogs"
	// hogShare is the part of the machine that the document gives to offline work.
	hogShare = 0.8
	// yielding lets offline work yield on a CPU, as Group Identity does in the document.
	yielding = `{"clusterStrategy": {"beClass": {"cpuQOS": {"enable": true}}}}`
)

// onlinePods are a server, and an offline pod that takes all the CPU time that it can get.
type onlinePods struct{ *seedBench }

// Load implements seeds.Opened.
func (o *onlinePods) Load() string {
	return fmt.Sprintf("%.0f requests of %d us a second in an open loop on a pod, beside an offline pod of %d hogs with a limit of %.1f CPUs; the ConfigMap of the cluster lets it yield in arm %s",
		o.rate(), bench.DefaultVictimWork.Microseconds(), o.cpus, hogShare*float64(o.cpus), bench.IdleGroup)
}

// rate is the number of requests a second.
func (o *onlinePods) rate() float64 { return bench.DefaultVictimRate * float64(o.cpus) }

// Close implements seeds.Opened.
func (o *onlinePods) Close() error {
	o.unseparated()
	return nil
}

// Run implements seeds.Opened.
func (o *onlinePods) Run(ctx context.Context, a seeds.Arm) (v seeds.Values, err error) {
	arrivals, err := load.Pattern{Rate: o.rate(), Batch: 1, Seed: a.Seed}.Arrivals(a.Duration)
	if err != nil {
		return v, err
	}
	if err := o.strategy(ctx, a.Name == bench.IdleGroup); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, o.gone(server, hogs)) }() //nolint:contextcheck // also after ctx ended
	pod, err := o.start(ctx, o.pod(server, "berth-burn:1", request))
	if err != nil {
		return v, err
	}
	m, err := openMeters(o.host, pod)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, m.container.Close(), m.pod.Close()) }()
	address := pod.Status.PodIP + ":8080"
	missing, err := o.beside(ctx, a.Name)
	if err != nil {
		return v, err
	}
	if err := ready(ctx, address, missing); err != nil {
		return v, err
	}
	outcome, raw, err := m.loaded(ctx, load.Generator{Address: address, Work: bench.DefaultVictimWork}, arrivals)
	if err != nil {
		return v, err
	}
	return seeds.Values{Samples: outcome.Samples, Of: map[string]float64{}, Raw: raw}, still(a, missing())
}

// beside starts the offline pod of an arm that has one, and returns a check of its precedence.
func (o *onlinePods) beside(ctx context.Context, arm string) (missing func() string, err error) {
	if arm == bench.Alone || arm == bench.AloneAgain {
		return func() string { return "" }, nil
	}
	pod := o.pod(hogs, "berth-burn:1", request)
	pod.Labels[v1alpha1.LabelQoSClass] = "BE"
	pod.Spec.Containers[0].Args = []string{"spin", strconv.Itoa(o.cpus)}
	limitTo(pod, hogShare*float64(o.cpus))
	if pod, err = o.start(ctx, pod); err != nil {
		return nil, err
	}
	name, err := group(pod)
	if err != nil {
		return nil, err
	}
	return func() string { return o.precedenceMissing(arm, path.Dir(name)) }, nil
}

// precedenceMissing says what is wrong with the precedence of the offline pod, "" for nothing.
func (o *onlinePods) precedenceMissing(arm, group string) string {
	g, err := o.host.Group(group)
	if err != nil {
		return err.Error()
	}
	defer g.Close()
	is, err := g.Read(cgroup.KnobPrecedence)
	if err != nil {
		return err.Error()
	}
	if (is == cgroup.Idle) != (arm == bench.IdleGroup) {
		return fmt.Sprintf("the offline pod has precedence %q", is)
	}
	return ""
}

// strategy writes the ConfigMap of an administrator, or removes it.
func (o *onlinePods) strategy(ctx context.Context, idle bool) error {
	if !idle {
		o.unseparated() //nolint:contextcheck // it has its own
		return nil
	}
	config := &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: policyName, Namespace: metav1.NamespaceSystem},
		Data:       map[string]string{"resource-qos-config": yielding},
	}
	_, err := o.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, config, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("ConfigMap %s: %w", policyName, err)
	}
	return nil
}

// openOnline fails on a kernel that knows no idle groups.
func (b *seedBench) openOnline() (seeds.Opened, error) {
	has, err := b.host.Probe(cgroup.KnobPrecedence)
	if err == nil && has == kernel.Unsupported {
		err = fmt.Errorf("cpu.idle of control groups, since Linux 5.15: %w", kernel.ErrNotSupported)
	}
	return &onlinePods{b}, err
}
