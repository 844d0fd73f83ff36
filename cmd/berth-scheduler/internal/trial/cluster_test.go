package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/cmd/berth-scheduler/internal/memapi"
	"github.com/berth-project/berth/test/patience"
)

func TestMain(m *testing.M) {
	if os.Getenv("BERTH_SCHEDULER_LOG") == "" {
		klog.SetLogger(logr.Discard())
	}
	os.Exit(m.Run())
}

// cluster is an API server in memory and a client for the test itself.
type cluster struct {
	testing.TB
	api        *memapi.Server
	client     *kubernetes.Clientset
	schedulers int // started so far
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	api := memapi.Start()
	t.Cleanup(api.Close)
	client, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{TB: t, api: api, client: client}
}

// running is one running scheduler.
type running struct {
	*scheduler.Scheduler
	// kill stops the scheduler immediately. Its requests that are still on the way change nothing.
	kill func()
}

// decode reads a configuration as the scheduler does: strictly and with defaults. The file may also be the ConfigMap
// that installs the configuration.
func decode(path string) (*config.KubeSchedulerConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var installed v1.ConfigMap
	if err := yaml.UnmarshalStrict(data, &installed); err == nil && installed.Kind == "ConfigMap" {
		data = []byte(installed.Data["config.yaml"])
	}
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	cfg, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s: %T", path, object)
	}
	return cfg, nil
}

func configFrom(t testing.TB, path string) *config.KubeSchedulerConfiguration {
	t.Helper()
	cfg, err := decode(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// build makes a scheduler for the cluster and starts its informers. The scheduler does not schedule yet.
func (c *cluster) build(ctx context.Context, cfg *config.KubeSchedulerConfiguration, registry runtime.Registry) *scheduler.Scheduler {
	c.Helper()
	return c.buildOn(ctx, cfg, registry, func(client kubernetes.Interface) (kubernetes.Interface, informers.SharedInformerFactory) {
		return client, scheduler.NewInformerFactory(client, 0)
	})
}

// source returns the client and the informers that a scheduler has in place of a client of the cluster.
type source func(kubernetes.Interface) (kubernetes.Interface, informers.SharedInformerFactory)

// buildOn is build with other clients and informers.
func (c *cluster) buildOn(ctx context.Context, cfg *config.KubeSchedulerConfiguration, registry runtime.Registry, from source) *scheduler.Scheduler {
	c.Helper()
	c.schedulers++
	access := c.api.Config()
	access.UserAgent = c.agent()
	direct, err := kubernetes.NewForConfig(access)
	if err != nil {
		c.Fatal(err)
	}
	client, informers := from(direct)
	dyn, err := dynamic.NewForConfig(access)
	if err != nil {
		c.Fatal(err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		c.Fatal(err)
	}
	dynInformers := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	s, err := scheduler.New(ctx, client, informers, dynInformers, profile.NewRecorderFactory(broadcaster),
		scheduler.WithKubeConfig(access),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithComponentConfigVersion("kubescheduler.config.k8s.io/v1"),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(0), // no backoff: tests are faster
		scheduler.WithPodMaxBackoffSeconds(0),
		scheduler.WithParallelism(4),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
	)
	if err != nil {
		c.Fatal(err)
	}
	informers.Start(ctx.Done())
	dynInformers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	dynInformers.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(broadcaster.Shutdown)
	return s
}

// agent returns the user agent of the most recently started scheduler.
func (c *cluster) agent() string { return fmt.Sprintf("scheduler-%d", c.schedulers) }

// schedule starts a scheduler. It runs until kill or the end of the test.
func (c *cluster) schedule(cfg *config.KubeSchedulerConfiguration, registry runtime.Registry) *running {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	s := c.build(ctx, cfg, registry)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	agent := c.agent()
	kill := func() {
		c.api.Fence(agent)
		cancel()
		<-done
	}
	c.Cleanup(kill)
	return &running{Scheduler: s, kill: kill}
}

// create creates pods through the API, as their owners do.
func (c *cluster) create(pods ...*v1.Pod) {
	c.Helper()
	for _, p := range pods {
		if _, err := c.client.CoreV1().Pods(p.Namespace).Create(c.Context(), p, metav1.CreateOptions{}); err != nil {
			c.Fatal(err)
		}
	}
}

// pod returns the stored pod.
func (c *cluster) pod(name string) *v1.Pod {
	c.Helper()
	p, err := c.client.CoreV1().Pods("default").Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return p
}

// until waits for a condition. If the wait makes no progress, the test fails with what as its message.
func (c *cluster) until(what string, ok func() bool) {
	c.Helper()
	err := patience.Until(context.WithoutCancel(c.Context()), 5*time.Millisecond, func() string {
		if ok() {
			return ""
		}
		return what
	})
	if err != nil {
		c.dump()
		c.Fatal(err)
	}
}

// dump logs the node and the condition of every pod, for a failing test.
func (c *cluster) dump() {
	for _, p := range c.pods() {
		c.Logf("%s/%s on %q %s nominated %q deleted %v: %s %s", p.Namespace, p.Name, p.Spec.NodeName, p.Status.Phase,
			p.Status.NominatedNodeName, p.DeletionTimestamp != nil, p.Annotations["berth.dev/placement"], why(p))
	}
}

// bound waits until the pod has a node, and returns the pod.
func (c *cluster) bound(name string) *v1.Pod {
	c.Helper()
	var p *v1.Pod
	c.until(name+" is bound", func() bool {
		p = c.pod(name)
		return p.Spec.NodeName != ""
	})
	return p
}

// pending waits until the pod's condition gives a reason for waiting, and returns it. The test fails if the pod is
// bound.
func (c *cluster) pending(name string) string {
	c.Helper()
	text := ""
	c.until(name+" says why it waits", func() bool {
		p := c.pod(name)
		if p.Spec.NodeName != "" {
			c.Fatalf("%s is bound to %s", name, p.Spec.NodeName)
		}
		text = why(p)
		return text != ""
	})
	return text
}

// why returns the message of the pod's PodScheduled=False condition, "" if there is none.
func why(p *v1.Pod) string {
	for _, cond := range p.Status.Conditions {
		if cond.Type == v1.PodScheduled && cond.Status == v1.ConditionFalse {
			return cond.Message
		}
	}
	return ""
}
