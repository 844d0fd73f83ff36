package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/seeds"
)

// TestSeedPods runs each arm of the documents' experiments once, with pods of the cluster. Each arm is in force and has
// a figure, or the machine lacks something. No pod and no ConfigMap is left. The node is this machine's.
func TestSeedPods(t *testing.T) {
	tour := inCluster(t)
	b, err := parseSeeds([]string{"--reps=1", "--duration=2s", "--version=test", "--out", t.TempDir()}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	b.tour = tour
	r, err := b.report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, m := range r.Experiments {
		if m.Why != "" {
			why[m.Name] = m.Why
			continue
		}
		for _, figure := range m.Results {
			if len(figure.Arms) != len(m.Arms) || len(m.Arms) == 0 {
				t.Errorf("%s: %s has arms %+v, want %q", m.Name, figure.Name, figure.Arms, m.Arms)
			}
			for _, a := range figure.Arms {
				if figure.Quantile == 0 && (a.Value == nil || *a.Value <= 0) {
					t.Errorf("%s: %s of %s is %v", m.Name, figure.Name, a.Arm, a.Value)
				}
			}
		}
		for _, arm := range m.Arms {
			pattern := filepath.Join(b.options.Out, fmt.Sprintf("%s-run01-%s.*", m.Name, strings.ReplaceAll(arm, " ", "-")))
			if files, err := filepath.Glob(pattern); err != nil || len(files) == 0 {
				t.Errorf("no raw data %s", pattern)
			}
		}
	}
	want := map[string]string{
		"profiles": "this machine lacks pods for this experiment: berth bench seeds profiles measures it without a cluster",
	}
	if b.numa < 2 {
		want["redis"] = "this machine lacks a second NUMA node with CPUs and memory"
	}
	if b.cpus < 3 {
		want["nginx"] = "this machine lacks three CPUs: two for nginx to choose from, and one for wrk"
	}
	if diff := cmp.Diff(want, why); diff != "" {
		t.Errorf("not measured (-want +got):\n%s", diff)
	}
	for _, name := range []string{"summary.json", "seeds.md", "seeds.svg"} {
		if _, err := os.Stat(filepath.Join(b.options.Out, name)); err != nil {
			t.Error(err)
		}
	}
	if pods, err := tour.mine(t.Context()); err != nil || len(pods) > 0 {
		t.Errorf("%d pods are left, %v", len(pods), err)
	}
	for namespace, name := range map[string]string{metav1.NamespaceSystem: policyName, "koordinator-system": "cfs-quota-burst-cm"} {
		if _, err := tour.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("ConfigMap %s/%s is left: %v", namespace, name, err)
		}
	}
}

// nginx runs each arm of that experiment: nginx and its clients need CPUs to choose from, which that node has.
func (s *second) nginx(t *testing.T) {
	b := &seedBench{tour: s.tour, node: vmName, cpus: s.online(t).Size()}
	opened, err := b.openNginx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.arms(t, "nginx", opened)
}

// redis runs each arm of that experiment on the two NUMA nodes of the machine, with few keys. The agent moves the pages
// in its arm.
func (s *second) redis(t *testing.T) {
	b := &seedBench{tour: s.tour, node: vmName, cpus: s.online(t).Size(), limit: 4, numa: 2}
	opened, err := b.openRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	opened.(*redisPods).load = bench.RedisLoad{Keys: 4000, Size: 4096, Requests: 1000, Clients: []int{50}}
	s.arms(t, "redis", opened)
}

// arms runs each arm of an experiment once, and closes it. The figures of an emulated machine mean nothing.
func (s *second) arms(t *testing.T, name string, opened seeds.Opened) {
	t.Helper()
	for _, e := range seeds.Experiments() {
		if e.Name != name {
			continue
		}
		for _, arm := range e.Arms {
			v, err := opened.Run(t.Context(), seeds.Arm{Experiment: e.Name, Name: arm, Duration: time.Second})
			if err != nil || len(v.Of) == 0 {
				t.Errorf("arm %s: %+v, %v", arm, v, err)
			}
			for figure, value := range v.Of {
				if value <= 0 {
					t.Errorf("arm %s: %s is %g", arm, figure, value)
				}
			}
			said := strings.Split(strings.TrimSpace(v.Raw), "\n")
			t.Log(arm, v.Of, said[0], said[len(said)-1])
		}
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}
