package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/deploy"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/apiclient"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/test/cluster/controlplane"
)

const (
	// podCPUs is the CPU request and limit of every pod.
	podCPUs = 4
	// scheduleNamespace, with the side of an arm, holds the pods; hidingNamespace holds the pod that hides CPUs.
	scheduleNamespace = "bench"
	hidingNamespace   = "bench-hiding"
	// writers is the number of concurrent requests that create objects.
	writers = 32
	// renewers is the number of concurrent requests that renew Leases.
	renewers = 8
	// leaseSeconds is the duration of the agents' Leases.
	leaseSeconds = 150
)

// cluster is a control plane whose nodes are objects without machines.
type cluster struct {
	plane     *controlplane.ControlPlane
	scheduler string
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	// leases are the Leases of the agents, by the number of the node.
	leases []*coordination.Lease
}

func newCluster(plane *controlplane.ControlPlane, scheduler string) (*cluster, error) {
	config := plane.Config()
	config.QPS, config.Burst = scheduleQPS, scheduleQPS
	c := &cluster{plane: plane, scheduler: scheduler}
	var err error
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if c.metadata, err = metadata.NewForConfig(metadata.ConfigFor(config)); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return c, nil
}

// install defines NodeTopology and creates the nodes with all objects that their agents would write.
func (c *cluster) install(ctx context.Context, nodes int) error {
	definitions, err := deploy.Definitions()
	if err != nil {
		return fmt.Errorf("definitions: %w", err)
	}
	if err := c.plane.Apply(ctx, definitions...); err != nil {
		return fmt.Errorf("definitions: %w", err)
	}
	for _, name := range append(podNamespaces(), v1alpha1.DefaultLeaseNamespace) {
		namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	machine := bench.GeneratedMachines()[0].Topology
	c.leases = make([]*coordination.Lease, nodes)
	return each(ctx, nodes, func(ctx context.Context, i int) (err error) {
		c.leases[i], err = c.putNode(ctx, fmt.Sprintf("node-%05d", i), machine)
		return err
	})
}

// each calls f for 0 to n-1 from several goroutines, until the first error.
func each(ctx context.Context, n int, f func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait() // The error of f.
}

// putNode creates a node with the objects of its agent, and returns the agent's Lease.
func (c *cluster) putNode(ctx context.Context, name string, machine *topology.Topology) (*coordination.Lease, error) {
	capacity := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(machine.Online.Size()), resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("1Ti"),
		v1.ResourcePods:   resource.MustParse("250"),
	}
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
	if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	if err := c.putTopology(ctx, name, machine); err != nil {
		return nil, fmt.Errorf("topology of %s: %w", name, err)
	}
	now, life := metav1.NowMicro(), int32(leaseSeconds)
	lease := &coordination.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1alpha1.DefaultLeaseNamespace},
		Spec:       coordination.LeaseSpec{HolderIdentity: &name, RenewTime: &now, LeaseDurationSeconds: &life},
	}
	lease, err := c.client.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("lease of %s: %w", name, err)
	}
	return lease, nil
}

// renewLeases renews the Leases of all agents until ctx ends, each as often as its agent would. The renewals are
// spread evenly over that time.
func (c *cluster) renewLeases(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for w := range renewers {
		group.Go(func() error {
			mine := (len(c.leases) - w + renewers - 1) / renewers
			if mine <= 0 {
				return nil
			}
			pause := apiclient.LeaseRenewed / time.Duration(mine)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause * time.Duration(w) / renewers): // not all renewers at once
			}
			return c.renewEvery(ctx, w, pause)
		})
	}
	return group.Wait() // The error of renewEvery.
}

// renewEvery renews the Leases of one of the renewers in turn, until ctx ends.
func (c *cluster) renewEvery(ctx context.Context, first int, pause time.Duration) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for i := first; ; i += renewers {
		if i >= len(c.leases) {
			i = first
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		lease := c.leases[i].DeepCopy()
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
		renewed, err := c.client.CoordinationV1().Leases(lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
		switch {
		case err == nil:
			c.leases[i] = renewed
		case ctx.Err() != nil:
			return nil // The end interrupted this renewal.
		default:
			return fmt.Errorf("lease of %s: %w", lease.Name, err)
		}
	}
}

// putTopology creates the NodeTopology that the node's agent would create: first the object, then its status.
func (c *cluster) putTopology(ctx context.Context, name string, machine *topology.Topology) error {
	now := metav1.Now()
	object := &v1alpha1.NodeTopology{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindNodeTopology},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       machine.Spec(),
		Status: v1alpha1.NodeTopologyStatus{
			AgentVersion:      "bench",
			PlacementVersions: []int64{v1alpha1.PlacementVersion},
			Counts:            machine.Counts(),
			FreeCPUs:          int64(machine.Online.Size()),
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Bench", LastTransitionTime: now},
				{Type: v1alpha1.ConditionPinnable, Status: metav1.ConditionTrue, Reason: "Bench", LastTransitionTime: now},
			},
		},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	topologies := c.dynamic.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.NodeTopologyResource))
	made, err := topologies.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	made.Object["status"] = content["status"]
	if _, err := topologies.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return nil
}

// podNamespaces are the namespaces of the pods.
func podNamespaces() []string {
	return []string{scheduleNamespace, scheduleNamespace + sideOne, scheduleNamespace + sideTwo, hidingNamespace}
}

// podOf returns a pod of an arm with so many CPUs.
func (a scheduleArm) podOf(request, limit int64) *v1.Pod {
	list := func(cpus int64) v1.ResourceList {
		return v1.ResourceList{
			v1.ResourceCPU:    *resource.NewQuantity(cpus, resource.DecimalSI),
			v1.ResourceMemory: resource.MustParse("4Gi"),
		}
	}
	noGrace := int64(0)
	return &v1.Pod{Spec: v1.PodSpec{
		SchedulerName:                 v1.DefaultSchedulerName + a.side,
		TerminationGracePeriodSeconds: &noGrace,
		Containers: []v1.Container{{
			Name: "main", Image: "bench",
			Resources: v1.ResourceRequirements{Requests: list(request), Limits: list(limit)},
		}},
	}}
}

// putPods creates the pending pods of an arm.
func (c *cluster) putPods(ctx context.Context, a scheduleArm) error {
	pods, like := c.client.CoreV1().Pods(a.namespace()), a.pod()
	return each(ctx, a.pods, func(ctx context.Context, i int) error {
		pod := like.DeepCopy()
		pod.Name = fmt.Sprintf("pod-%06d", i)
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("pod %d: %w", i, err)
		}
		return nil
	})
}

// removePods deletes all pods and waits until they are gone.
func (c *cluster) removePods(ctx context.Context) error {
	var errs []error
	for _, namespace := range podNamespaces() {
		errs = append(errs, c.removeFrom(ctx, namespace))
	}
	return errors.Join(errs...)
}

func (c *cluster) removeFrom(ctx context.Context, namespace string) error {
	pods := c.client.CoreV1().Pods(namespace)
	for {
		err := pods.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("delete pods: %w", err)
		}
		left, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return fmt.Errorf("delete pods: %w", err)
		}
		if len(left.Items) == 0 {
			return nil
		}
	}
}

// compact removes the history of the store, so that no run carries the objects of the runs before.
func (c *cluster) compact(ctx context.Context) error {
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{c.plane.Etcd()}})
	if err != nil {
		return fmt.Errorf("client of etcd: %w", err)
	}
	defer func() { _ = store.Close() }() // The compaction is done.
	now, err := store.Get(ctx, "/none", clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("revision of etcd: %w", err)
	}
	if _, err := store.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}
