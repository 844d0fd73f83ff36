package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/test/cluster/local"
)

// The scheduler of the manifests is a process of the machine; that of the chart is a Deployment of this name.
const scheduler = "berth-scheduler"

// imagesOnly are the values that a cluster with a registry of its own needs: the chart has the defaults otherwise.
const imagesOnly = "agent: {image: {tag: latest}}\nscheduler: {image: {tag: latest}}\n"

// chartDefaults installs the chart with its default values in a cluster that keeps its own scheduler. It pins a pod by
// the chart's scheduler, and upgrades, rolls back and removes the release. The pod keeps its CPUs to the end. Pods that
// ran before any agent have every file as it was before.
func (s *stage) chartDefaults(t *testing.T) {
	c := &charted{stage: s, helm: newHelm(t)}
	plain, before := plainScheduler(t)
	// Whatever fails from here on, the cluster has its scheduler and its agent again. The agent comes first: that
	// scheduler has the rights of the manifests.
	defer s.restartScheduler(t, before)
	defer c.withoutHelm(t)
	s.endAgent(t)
	c.observe(t)
	s.restartScheduler(t, plain)
	values := filepath.Join(t.TempDir(), "values.yaml")
	must(t, os.WriteFile(values, []byte(imagesOnly), 0o600))

	begin := time.Now()
	c.helm.runs(t, "install", release, c.helm.chart, "--wait", "--take-ownership", "--force-conflicts", "-f", values)
	c.agentReady(t)
	c.figure(t, "helm install to Ready", fmt.Sprintf("%.1f s", time.Since(begin).Seconds()))
	c.pinnable(t, true, "")
	c.held = c.start(t, "held", pinned, func(p *v1.Pod) { p.Spec.SchedulerName = scheduler })
	c.works(t)
	if own := c.placement(t, "held", "app").cpus; len(own) != 1 {
		t.Fatalf("the scheduler of the chart gives the pod the CPUs %s", own)
	}

	c.watched(t, "upgrade", release, c.helm.chart, "--wait", "--force-conflicts", "-f", values, "--set", "agent.config.burst.maxPercent=900")
	c.unchanged(t, c.held)
	c.watched(t, "rollback", release, "1", "--wait")
	c.unchanged(t, c.held)
	c.works(t)

	log := c.helm.runs(t, "uninstall", release)
	c.noAgent(t)
	c.asBefore(t, "after the uninstall")
	c.unchanged(t, c.held)
	if !nodeSays(log, local.NodeName, "Restored", "every original value is back") {
		t.Errorf("helm uninstall says\n%s", log)
	}
}

// plainScheduler returns the configuration of an ordinary kube-scheduler, which schedules pods that name no scheduler,
// as in a cluster that has never had Berth, and the present configuration of the machine's scheduler.
func plainScheduler(t *testing.T) (plain, before []byte) {
	t.Helper()
	before, err := os.ReadFile(configFile(scheduler + ".yaml"))
	must(t, err)
	config := map[string]any{}
	must(t, yaml.Unmarshal(before, &config))
	config["profiles"] = []any{map[string]any{"schedulerName": v1.DefaultSchedulerName}}
	plain, err = yaml.Marshal(config)
	must(t, err)
	return plain, before
}

// restartScheduler restarts the machine's scheduler with a configuration, also after the end of the test.
func (s *stage) restartScheduler(t *testing.T, config []byte) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	must(t, os.WriteFile(configFile(scheduler+".yaml"), config, 0o600))
	must(t, s.c.Stop(ctx, scheduler))
	must(t, s.c.Start(ctx, scheduler))
}
