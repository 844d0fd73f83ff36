package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/seeds"
	"github.com/berth-project/berth/test/patience"
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

// arms runs each arm of an experiment, and closes it. The figures of an emulated machine mean nothing.
func (s *second) arms(t *testing.T, name string, opened seeds.Opened) {
	t.Helper()
	for _, e := range seeds.Experiments() {
		if e.Name != name {
			continue
		}
		for _, arm := range e.Arms {
			v, err := figures(t.Context(), opened, seeds.Arm{Experiment: e.Name, Name: arm})
			if err != nil {
				t.Errorf("arm %s: %+v, %v", arm, v, err)
			}
			said := strings.Split(strings.TrimSpace(v.Raw), "\n")
			t.Log(arm, v.Of, said[0], said[len(said)-1])
		}
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}

// longest is the longest load of figures.
const longest = time.Minute

// figures runs an arm for a second, and then for longer until each figure is above 0: a slow machine answers no request
// in a second. It ends with patience.ErrOver if longer loads change nothing. A longer load takes four times as long,
// because each run also starts a pod, but at most longest: nothing ends a run that has begun.
func figures(ctx context.Context, opened seeds.Opened, a seeds.Arm) (v seeds.Values, err error) {
	a.Duration = time.Second
	over := patience.Until(ctx, settled/4, func() string {
		if v, err = opened.Run(ctx, a); err != nil {
			return ""
		}
		a.Duration = min(4*a.Duration, longest)
		for _, name := range slices.Sorted(maps.Keys(v.Of)) {
			if v.Of[name] <= 0 {
				return fmt.Sprintf("%s is %g", name, v.Of[name])
			}
		}
		if len(v.Of) == 0 {
			return "there is no figure"
		}
		return ""
	})
	return v, errors.Join(err, over)
}

// slow is an experiment of a machine that answers no request before so much load.
type slow struct {
	seeds.Opened

	before  time.Duration
	without error // of each run
	runs    []time.Duration
}

func (s *slow) Run(_ context.Context, a seeds.Arm) (seeds.Values, error) {
	s.runs = append(s.runs, a.Duration)
	time.Sleep(a.Duration)
	if s.without != nil {
		return seeds.Values{}, s.without
	}
	requests := max(0, a.Duration-s.before)
	return seeds.Values{Of: map[string]float64{"mean": 1, "requests": requests.Seconds()}}, nil
}

// TestFiguresOfASlowMachine uses a fake clock: a load gets longer until there are figures, and ends without progress or
// with the first error.
func TestFiguresOfASlowMachine(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		slow
		want error
		runs int // 0 for any number
	}{
		"fast":   {slow{}, nil, 1},
		"slow":   {slow{before: 5 * time.Second}, nil, 3},
		"broken": {slow{without: broken}, broken, 1},
		"dead":   {slow{before: time.Duration(math.MaxInt64)}, patience.ErrOver, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := figures(t.Context(), &test.slow, seeds.Arm{})
			runs := test.slow.runs
			if !errors.Is(err, test.want) || test.runs > 0 && len(runs) != test.runs {
				t.Errorf("%s: %v after loads of %v, want %v after %d", name, err, runs, test.want, test.runs)
			}
			if most := slices.Max(runs); most > longest {
				t.Errorf("%s: one load takes %v", name, most)
			}
		})
	}
}
