package simulate

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
)

// scaled returns a cluster with so many nodes, which cycle through the three machines of testdata, and ten pods per
// node. The pods belong to a hundred Deployments, of which every second asks for one to eight exclusive CPUs.
func scaled(tb testing.TB, nodes int) Objects {
	tb.Helper()
	three := readFiles(tb, "testdata/nodes.yaml")
	var o Objects
	for i := range nodes {
		one := three.Topologies[i%len(three.Topologies)]
		one.Name = fmt.Sprintf("node-%05d", i)
		o.Topologies = append(o.Topologies, one)
	}
	r := &reader{}
	for _, d := range deployments(nodes) {
		if problems := r.replicas(&d.ObjectMeta, d.Kind, copies{template: d.Spec.Template, count: *d.Spec.Replicas}); problems != nil {
			tb.Fatal(problems)
		}
	}
	o.Pods = r.objects.Pods
	return o
}

// deployments returns the hundred Deployments of scaled.
func deployments(nodes int) []appsv1.Deployment {
	all := make([]appsv1.Deployment, 100)
	for i := range all {
		d := &all[i]
		cpus := resource.MustParse([]string{"250m", fmt.Sprint(1 + i/2%8)}[i%2])
		d.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
		d.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("w%d", i), Namespace: "shop"}
		d.Spec.Replicas = new(int32(nodes * 10 / len(all)))
		d.Spec.Template.Spec.Containers = []v1.Container{{Name: "main", Image: "i", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: cpus}, Limits: v1.ResourceList{v1.ResourceCPU: cpus},
		}}}
		if i%2 == 1 {
			d.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}
		}
	}
	return all
}

// scaleFile names a file for the manifests of 10,000 nodes and 100,000 pods, the input of a measurement of the command.
const scaleFile = "BERTH_SCALE_FILE"

// TestScaledManifests checks that the cluster of BenchmarkScale is the same when it is read from manifests.
func TestScaledManifests(t *testing.T) {
	name, nodes := cmp.Or(os.Getenv(scaleFile), filepath.Join(t.TempDir(), "scale.yaml")), 30
	if os.Getenv(scaleFile) != "" {
		nodes = 10_000
	}
	o := scaled(t, nodes)
	var manifests bytes.Buffer
	add := func(object any) {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		manifests.WriteString("---\n")
		manifests.Write(text)
	}
	for _, one := range o.Topologies {
		one.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindNodeTopology}
		add(one)
	}
	for _, d := range deployments(nodes) {
		add(d)
	}
	if err := os.WriteFile(name, manifests.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Getenv(scaleFile) != "" {
		return // the command reads it
	}
	if want, got := text(t, run(t, New(o))), text(t, run(t, New(readFiles(t, name)))); got != want {
		t.Error("from manifests the report differs")
	}
}

// BenchmarkScale places ten pods per node.
func BenchmarkScale(b *testing.B) {
	for _, nodes := range []int{300, 1000, 10_000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			o := scaled(b, nodes)
			var placed int
			before := cpuTime(b)
			for b.Loop() {
				report, err := New(o).Run(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				placed = len(report.Placements)
			}
			spent := cpuTime(b) - before
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(len(o.Pods)), "µs/pod")
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N)/float64(len(o.Pods)), "cpu-µs/pod")
			b.ReportMetric(float64(placed)/float64(len(o.Pods)), "placed/pod")
			b.ReportMetric(float64(memory.Sys>>20), "MiB")
		})
	}
}

// BenchmarkScaleRatio compares the cost of a pod on 10,000 nodes with the cost on 1,000 nodes. An iteration has three
// turns of both sizes. Each size gets the same number of pods in a turn, so that other programs disturb both alike.
func BenchmarkScaleRatio(b *testing.B) {
	const turns, few, many = 3, 1000, 10_000
	var cpu, clock []float64
	arms := []int{few, many}
	for b.Loop() {
		for range turns {
			spent, took := map[int]time.Duration{}, map[int]time.Duration{}
			for _, nodes := range arms {
				spent[nodes], took[nodes] = cost(b, nodes, many/nodes)
			}
			cpu = append(cpu, spent[many].Seconds()/spent[few].Seconds())
			clock = append(clock, took[many].Seconds()/took[few].Seconds())
			slices.Reverse(arms)
		}
	}
	slices.Sort(cpu)
	slices.Sort(clock)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(cpu[len(cpu)/2], "cpu-ratio")
	b.ReportMetric(cpu[0], "cpu-ratio-min")
	b.ReportMetric(cpu[len(cpu)-1], "cpu-ratio-max")
	b.ReportMetric(clock[len(clock)/2], "clock-ratio")
}

// cost returns the CPU time of the process and the time of runs on a cluster of its own. The heap of another size would
// change how often the garbage collector runs.
func cost(b *testing.B, nodes, runs int) (spent, took time.Duration) {
	b.Helper()
	o := scaled(b, nodes)
	runtime.GC()
	before, began := cpuTime(b), time.Now()
	for range runs {
		if _, err := New(o).Run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return cpuTime(b) - before, time.Since(began)
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
