package localize

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

// fake is a mover that does what a test says.
type fake struct {
	// orders has the orders by key without the order's number. last has the whole key by the same key.
	orders   map[string]mover.Order
	last     map[string]string
	reports  []mover.Report
	canceled []string
	// slow is true when canceled passes do not end yet.
	slow bool
}

func (f *fake) Order(o mover.Order) {
	short, _, _ := strings.Cut(o.Key, "#")
	f.orders[short], f.last[short] = o, o.Key
	f.set(mover.Report{Key: o.Key, Phase: mover.Queued})
}

func (f *fake) set(r mover.Report) {
	if whole, ordered := f.last[r.Key]; ordered {
		r.Key = whole
	}
	f.Forget(r.Key)
	f.reports = append(f.reports, r)
}

func (f *fake) Cancel(key string) {
	if f.canceled = append(f.canceled, key); f.slow {
		return
	}
	f.set(mover.Report{Key: key, Phase: mover.Done, Outcome: "Failed", Err: fmt.Errorf("pass: %w", mover.ErrCanceled)})
}
func (f *fake) Reports() []mover.Report { return append([]mover.Report(nil), f.reports...) }

func (f *fake) Forget(key string) {
	kept := f.reports[:0]
	for _, r := range f.reports {
		if r.Key != key {
			kept = append(kept, r)
		}
	}
	f.reports = kept
}
func (*fake) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// world is a host of plain files with two NUMA nodes of two CPUs each, and the Groups of its agent.
type world struct {
	*plain.Host
	t     testing.TB
	root  *hostfs.Root
	mover *fake
	s     *Groups
	node  capability.Node
	cfg   v1alpha1.AgentConfig
	// events and annotations has everything reported since the last call of took.
	events, annotations []string
	changes             int
}

const redis = "pods/redis"

func newWorld(t testing.TB) *world {
	w := &world{Host: plain.WithGroups(t, "cpuset cpu memory"), t: t, mover: &fake{orders: map[string]mover.Order{}, last: map[string]string{}}}
	w.write("sys/devices/system/cpu/online", "0-3\n")
	w.write("sys/devices/system/node/online", "0-1\n")
	for node, cpus := range []string{"0-1", "2-3"} {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", node)
		w.write(dir+"cpulist", cpus+"\n")
		w.write(dir+"distance", []string{"10 20\n", "20 10\n"}[node])
		w.write(dir+"meminfo", fmt.Sprintf("Node %d MemTotal: 8388608 kB\n", node))
	}
	for cpu := range 4 {
		w.write(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu), fmt.Sprintf("%d\n", cpu))
	}
	w.group(redis)
	w.cpus(redis, "0-1")
	w.memory(redis, 43, 57)
	v1alpha1.SetAgentConfigDefaults(&w.cfg)
	w.node = capability.Node{Online: list(t, "0-3"), Config: &w.cfg, Now: time.Hour}
	w.root = w.Root()
	w.restart(nil)
	w.with(w.container("redis", true, `{"policy":"bestEffort"}`))
	return w
}

func list(t testing.TB, text string) cpuset.Set {
	s, err := cpuset.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) write(name, content string) {
	w.t.Helper()
	if strings.HasPrefix(name, "sys/devices/system/") {
		w.node.Topology = nil // The agent reads it again.
	}
	w.Write(name, content)
}

func (w *world) group(path string) {
	w.write("sys/fs/cgroup/"+path+"/cgroup.controllers", "cpuset cpu memory\n")
	w.write("sys/fs/cgroup/"+path+"/cpuset.mems.effective", "0-1\n")
	w.write("sys/fs/cgroup/"+path+"/memory.current", "0\n")
}

func (w *world) cpus(path, list string) {
	w.write("sys/fs/cgroup/"+path+"/cpuset.cpus.effective", list+"\n")
}

// memory sets a group's memory on both nodes in MiB.
func (w *world) memory(path string, node0, node1 int) {
	w.write("sys/fs/cgroup/"+path+"/memory.numa_stat", fmt.Sprintf("anon N0=%d N1=%d\nfile N0=0 N1=99999\nshmem N0=0 N1=0\n", node0<<20, node1<<20))
}

// container returns a container of the pod ns/p. An empty annotation is none.
func (w *world) container(name string, bound bool, annotation string) observed.Workload {
	c := observed.Workload{
		PodUID: "u", Name: "ns/p/" + name, Pod: "ns/p", Container: name, ID: "id-" + name, Group: "pods/" + name, Bound: bound, Class: "LS",
	}
	if annotation != "" {
		c.Annotations = map[string]string{v1alpha1.AnnotationMemoryLocality: annotation}
	}
	return c
}

// byClass gives a container a policy by its class.
func byClass(c observed.Workload, text string) observed.Workload {
	m, _, _ := v1alpha1.DecodeMemoryLocality(text)
	c.QOS.MemoryLocality, c.QOSSource = &m, "ConfigMap"
	return c
}

func (w *world) with(all ...observed.Workload) { w.node.Containers = all }

// restart starts another agent with what the last one remembered.
func (w *world) restart(saved capability.Sections) {
	w.t.Helper()
	host, err := cgroup.Open(w.root)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = New(Options{
		Root: w.root, Host: host, Mover: w.mover, Changed: func() { w.changes++ },
		Now: func() time.Time { return time.Unix(1_000_000_000, 0).Add(w.node.Now) },
	})
	if err := w.s.Recall(saved); err != nil {
		w.t.Error(err)
	}
}

// pass runs rounds for so many seconds.
func (w *world) pass(seconds int) {
	for range seconds {
		w.node.Now += time.Second
		w.discover()
		d := w.s.Decide(&w.node)
		for _, e := range d.Events {
			kind := "Normal"
			if e.Warning {
				kind = "Warning"
			}
			w.events = append(w.events, e.PodUID+" "+kind+" "+e.Reason+": "+e.Text)
		}
		for _, a := range d.Annotations {
			w.annotations = append(w.annotations, a.PodUID+" "+a.Key+" "+a.Value)
		}
		if len(d.Settings) > 0 || d.Held {
			w.t.Errorf("decided %+v", d)
		}
	}
}

// discover reads the present topology.
func (w *world) discover() {
	if w.node.Topology != nil {
		return
	}
	var err error
	if w.node.Topology, err = topology.Discover(w.root.FS()); err != nil {
		w.t.Fatal(err)
	}
}

// took returns the events and annotations since the last call.
func (w *world) took() (events, annotations string) {
	events, annotations = strings.Join(w.events, "\n"), strings.Join(w.annotations, "\n")
	w.events, w.annotations = nil, nil
	return strings.ReplaceAll(events, "koordinator.sh/memory-locality-status ", ""), strings.ReplaceAll(annotations, "koordinator.sh/memory-locality-status ", "")
}

// expect compares the events and annotations since the last call.
func (w *world) expect(events, annotations string) {
	w.t.Helper()
	gotEvents, gotAnnotations := w.took()
	if gotEvents != events {
		w.t.Errorf("events\n%s\nwant\n%s", gotEvents, events)
	}
	if gotAnnotations != annotations {
		w.t.Errorf("annotations\n%s\nwant\n%s", gotAnnotations, annotations)
	}
}

// key returns the key of the orders for a container.
func key(name string) string { return "ns/p/" + name + "@id-" + name }

// done ends a pass with this report.
func (w *world) done(r mover.Report) {
	r.Phase = mover.Done
	w.mover.set(r)
}

// at returns the status annotation.
func (w *world) at(phase, result string, ratio, pages int) string {
	if result == "" {
		return fmt.Sprintf(`u {"phase":%q}`, phase)
	}
	now := time.Unix(1_000_000_000, 0).Add(w.node.Now).UTC().Format(time.RFC3339)
	return fmt.Sprintf(`u {"phase":%q,"lastResult":{"completedTime":%q,"result":%q,"completedTimeLocalityRatio":%d,"completedTimeRemotePages":%d}}`, phase, now, result, ratio, pages)
}
