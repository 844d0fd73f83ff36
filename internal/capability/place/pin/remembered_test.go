package pin

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// TestRememberedReport checks after any events that the report is what would be reported again, and that a report that
// was returned never changes.
func TestRememberedReport(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := newLender(t, map[string]string{})
		pods := []*cluster.Pod{onePod("db", map[string]string{
			v1alpha1.AnnotationCPUSetScheduler: "true", v1alpha1.AnnotationCPUPolicy: v1alpha1.CPUPolicyStaticBurst,
		})}
		var harm error
		running, looked := []string{"db"}, time.Duration(0)
		l.opts.MayChange = func(string, cpuset.Set) error { return harm }
		var before capability.Outcome
		var text string
		r.Repeat(map[string]func(*rapid.T){
			"pod": func(r *rapid.T) {
				name, keys := fmt.Sprint("p", len(pods)), map[string]string{}
				if rapid.Bool().Draw(r, "pinned") {
					keys[v1alpha1.AnnotationCPUSetScheduler] = "true"
				}
				pods = append(pods, onePod(name, keys))
				l.inventory.Take(&cluster.Snapshot{Pods: slices.Clone(pods), PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 4000}})
				for _, kind := range []nri.Kind{nri.RunPod, nri.Create, nri.Start} {
					l.says(kind, name)
				}
				running = append(running, name)
			},
			"remove": func(r *rapid.T) {
				if len(running) == 0 {
					return
				}
				at := rapid.IntRange(0, len(running)-1).Draw(r, "container")
				name := running[at]
				running = slices.Delete(running, at, at+1)
				l.says(nri.Stop, name)
				l.says(nri.Remove, name)
			},
			"second": func(r *rapid.T) {
				l.now += time.Second
				l.threads(rapid.IntRange(1, 9).Draw(r, "threads"))
				l.stat(l.now, rapid.IntRange(0, 2).Draw(r, "throttled"))
				l.busy(0, 0, int(l.now.Seconds()))
				n := &capability.Node{Now: l.now}
				if rapid.Bool().Draw(r, "keeps") {
					n.Pages = map[string]capability.Pages{"db": {Moving: true}}
				}
				l.Decide(n)
			},
			"harm": func(r *rapid.T) {
				harm = rapid.SampledFrom([]error{nil, errors.New("a policy would be rebound"), errors.New("no room")}).Draw(r, "harm")
			},
			"mems": func(r *rapid.T) {
				l.write("sys/fs/cgroup/db/cpuset.mems.effective", rapid.SampledFrom([]string{"0", "1", "0-1"}).Draw(r, "mems"))
			},
			"doubt": func(r *rapid.T) {
				l.write("proc/meminfo", rapid.SampledFrom([]string{"MemTotal: 4194304 kB\n", "MemTotal: 16777216 kB\n"}).Draw(r, "meminfo"))
				looked += time.Minute
				if facts, changed := l.opts.Hardware.Read(looked, cpuset.Set{}, nil); changed {
					l.assignment.SetFacts(facts)
				}
			},
			"online": func(r *rapid.T) {
				l.write("sys/devices/system/cpu/online", rapid.SampledFrom([]string{"0-3\n", "0-2\n"}).Draw(r, "online"))
				reads(l.Sets)
			},
			"unknown": func(*rapid.T) { l.assignment.SetFacts(place.Facts{}) },
			"lost":    func(*rapid.T) { l.opts.Hardware.Machine.Topology = nil },
			"": func(r *rapid.T) {
				if is, err := json.Marshal(before); err != nil || text != "" && string(is) != text {
					r.Fatalf("the report before was %s, and is %s: %v", text, is, err)
				}
				before = l.Outcome(time.Time{})
				made, err := json.Marshal(before)
				if err != nil {
					r.Fatal(err)
				}
				text = string(made)
				if l.opts.Hardware.Machine.Topology == nil {
					if len(before.Node) > 0 || before.Shown.Machine != nil {
						r.Fatalf("without a machine: %s", text)
					}
					return
				}
				now := l.reportOf()
				if cpus, shown := l.cpus(now), l.shown(now); !reflect.DeepEqual(before.Node[keyCPUs], cpus) || !reflect.DeepEqual(before.Shown, shown) {
					r.Fatalf("remembered %s, made anew %+v, %+v", text, cpus, shown)
				}
			},
		})
	})
}
