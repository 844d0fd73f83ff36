package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/cluster/local"
)

// TestJudgeOfBorrowing checks what a witness may see of cal-pi, which has CPUs 0-3 reserved, and of go-demo.
func TestJudgeOfBorrowing(t *testing.T) {
	t.Parallel()
	const (
		pi     = " burst.slice/pod-1.slice/cri-containerd-pi.scope="
		a, b   = " burst.slice/pod-2.slice/cri-containerd-a.scope=", " burstable/pod-3/b="
		pool   = " other.slice/pod-4.slice/cri-containerd-pool.scope=4-9\n"
		wide   = "9" + pi + "0-4,6,8" + pool
		yields = "1" + pi + "0-3,8" + pool + "7" + pi + "0-3,8" + a + "4-7" + pool
	)
	reserved, err := cpuset.Parse("0-3")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ seen, want string }{
		"it yields":                     {wide + yields + wide, ""},
		"it yields in the very look":    {wide + "7" + pi + "0-3,8" + a + "4-7" + pool + wide, ""},
		"two looks that do not fit":     {wide + "1" + pi + "0-4,6,8" + a + "4-7" + pool + yields + wide, ""},
		"both have a CPU":               {wide + "2" + pi + "0-4,6,8" + a + "4-7" + pool + yields + wide, "broken law: go-demo-a and another pod had the exclusive CPUs 4,6 together, for 2 looks"},
		"two pods of go-demo":           {wide + "3" + pi + "0-3" + a + "4-7" + b + "7-10" + pool + wide, "had the exclusive CPUs 7 together, for 3 looks"},
		"it loses a reserved CPU":       {wide + "1" + pi + "0-2" + a + "4-7" + pool + wide, "broken law: cal-pi had CPUs 0-2, and 0-3 are reserved for it"},
		"other cores":                   {wide + "5" + pi + "0-4,6,8" + a + "10-13" + pool + wide, "no pod got CPUs that cal-pi borrowed, 4,6,8"},
		"it does not borrow again":      {wide + yields, ""},
		"it borrows nothing in the end": {wide + yields + "5" + pi + "0-3" + pool, "in the end cal-pi borrows nothing"},
		"the witness does not see it":   {wide + "5" + a + "4-7" + pool, "the witness does not see cal-pi"},
		"what is no look":               {"x" + pi + "0-3\n", "the witness printed"},
		"what is no set":                {"1" + pi + "0-x\n", "the witness printed"},
	} {
		pod := &v1.Pod{Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{ContainerID: "containerd://pi"}}}}
		sights, err := parseSights(c.seen)
		if err == nil {
			err = calPi{pod, reserved}.judge(sights, map[string]string{"a": "go-demo-a", "b": "go-demo-b"})
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestWitnessLooks checks that a witness has looked when it has started, although files of an earlier witness are
// there, and that it ends.
func TestWitnessLooks(t *testing.T) {
	t.Parallel()
	stop := filepath.Join(t.TempDir(), "stop")
	for _, file := range []string{stop, stop + "-looked"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tour := &tour{cluster: &local.Cluster{}}
	w, err := tour.witness(t.Context(), "no machine", stop, closely)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stop + "-looked"); err != nil {
		t.Error(err)
	}
	sights, err := w.end()
	if err != nil || len(sights) == 0 || sights[0].looks == 0 {
		t.Errorf("the witness saw %v: %v", sights, err)
	}
	if _, err := os.Stat(stop); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file that ends a witness stays: %v", err)
	}
}

// TestBorrowerOfTheDocument checks that cal-pi differs from the documentation's in the policy, the node and the
// program's end only.
func TestBorrowerOfTheDocument(t *testing.T) {
	t.Parallel()
	var pods [2]v1.Pod
	printed, err := seed("cal-pi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := borrowing(t.TempDir(), "here", documentDigits)
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range []string{printed, ours} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, &pods[i]); err != nil {
			t.Fatal(err)
		}
	}
	want, got := pods[0], pods[1]
	want.Annotations[v1alpha1.AnnotationCPUPolicy] = v1alpha1.CPUPolicyStaticBurst
	want.Spec.NodeSelector = map[string]string{v1.LabelHostname: "here"}
	want.Spec.Containers[0].Env = append(want.Spec.Containers[0].Env, v1.EnvVar{Name: "stay", Value: "yes"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
