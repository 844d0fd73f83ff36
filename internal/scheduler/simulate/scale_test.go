package simulate

import (
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	const workloads = 100
	r := &reader{}
	for i := range workloads {
		cpus := resource.MustParse([]string{"250m", fmt.Sprint(1 + i/2%8)}[i%2])
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("w%d", i), Namespace: "shop"}
		template := v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "i", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: cpus}, Limits: v1.ResourceList{v1.ResourceCPU: cpus},
		}}}}}
		if i%2 == 1 {
			template.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}
		}
		if problems := r.replicas(&meta, "Deployment", copies{template: template, count: int32(nodes * 10 / workloads)}); problems != nil {
			tb.Fatal(problems)
		}
	}
	o.Pods = r.objects.Pods
	return o
}

// BenchmarkScale places ten pods per node.
func BenchmarkScale(b *testing.B) {
	for _, nodes := range []int{300, 1000, 10_000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			o := scaled(b, nodes)
			var placed int
			for b.Loop() {
				report, err := New(o).Run(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				placed = len(report.Placements)
			}
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(len(o.Pods)), "µs/pod")
			b.ReportMetric(float64(placed)/float64(len(o.Pods)), "placed/pod")
			b.ReportMetric(float64(memory.Sys>>20), "MiB")
		})
	}
}
