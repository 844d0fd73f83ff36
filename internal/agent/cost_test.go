package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// BenchmarkGroupSecond measures what the agent spends in one second on real groups whose quota does not change. The
// clock is the benchmark's, the files are the kernel's.
func BenchmarkGroupSecond(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("makes cgroups: needs root")
	}
	const (
		groups = 40
		step   = 100 * time.Millisecond
	)
	host := newBenchHost(b, groups, "")
	for i := range host.groups {
		host.workload(i, `annotations: {koordinator.sh/cpuBurst: '{"policy":"cfsQuotaBurstOnly"}'}`)
	}
	host.start()
	for range 30 {
		host.c.pass()
		host.now += step
	}
	b.ReportAllocs()
	for b.Loop() {
		for range int(time.Second / step) {
			host.c.pass()
			host.now += step
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/groups, "µs/group/s")
}

// BenchmarkView makes views of an agent of 500 groups, and reports how long each view holds the agent's mutex: the
// mean, the 99th percentile and the maximum, because no view may hold it for more than 2 ms.
func BenchmarkView(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("makes cgroups: needs root")
	}
	host := newBenchHost(b, 500, "")
	for i := range host.groups {
		host.workload(i, "")
	}
	host.start()
	host.c.pass()
	v := &viewer{agent: host.c}
	b.ReportAllocs()
	var held []time.Duration
	for b.Loop() {
		began := time.Now()
		v.copied()
		held = append(held, time.Since(began))
		now, err := v.look()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(now); err != nil {
			b.Fatal(err)
		}
	}
	var all time.Duration
	for _, one := range held {
		all += one
	}
	slices.Sort(held)
	b.ReportMetric(float64(all.Microseconds())/float64(len(held)), "µs/held")
	p99, _ := load.Quantile(held, 0.99)
	b.ReportMetric(float64(p99.Microseconds()), "µs-p99")
	b.ReportMetric(float64(held[len(held)-1].Microseconds()), "µs-max")
}

const isolated = "resource-threshold-config: {clusterStrategy: {enable: true}}\n"

// BenchmarkIsolatedSecond measures the CPU time of one second of passes over groups of which one is offline, with a
// boundary and without. The difference is the cost of the boundary.
func BenchmarkIsolatedSecond(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("makes cgroups: needs root")
	}
	for _, config := range []string{"", isolated} {
		b.Run(map[string]string{"": "shared", isolated: "isolated"}[config], func(b *testing.B) {
			const groups = 100
			host := newBenchHost(b, groups, config)
			for i := range host.groups {
				host.workload(i, "labels: {koordinator.sh/qosClass: "+[]string{"BE", "LS"}[min(i, 1)]+"}")
			}
			host.start()
			for end := host.now + time.Minute; host.now < end; { // on many CPUs offline work grows meanwhile
				host.now += host.c.pass()
			}
			if apart := host.apart(); apart != (config != "") {
				b.Fatalf("the sides are apart: %v", apart)
			}
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				for end := host.now + time.Second; host.now < end; {
					host.now += host.c.pass()
				}
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N)/groups, "cpu-µs/group/s")
		})
	}
}

// BenchmarkBoundaryMoves measures how long a hundred groups need to move to their sides when one of them becomes
// offline work. It counts whole passes until the kernel confirms the CPUs, including the originals written to the
// journal.
func BenchmarkBoundaryMoves(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("makes cgroups: needs root")
	}
	host := newBenchHost(b, 100, isolated)
	for i := range host.groups {
		host.workload(i, "")
	}
	host.start()
	var wall, cpu time.Duration
	for b.Loop() {
		host.workload(0, "labels: {koordinator.sh/qosClass: BE}")
		for host.now += time.Second; !host.apart(); host.now += time.Second {
			began, used := time.Now(), cpuTime(b)
			host.c.pass()
			wall, cpu = wall+time.Since(began), cpu+cpuTime(b)-used
		}
		host.workload(0, "labels: {koordinator.sh/qosClass: LS}")
		for ; host.apart(); host.now += time.Second {
			host.c.pass()
		}
	}
	b.ReportMetric(float64(wall.Microseconds())/1000/float64(b.N), "ms/move")
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(b.N), "cpu-ms/move")
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// benchHost runs a controller on groups of this machine, with a clock of its own.
type benchHost struct {
	b      *testing.B
	root   *hostfs.Root
	host   *cgroup.Host
	groups []*scratch.Group
	dir    string
	now    time.Duration
	// live makes the clock that of the kernel, in place of now.
	live bool
	c    *controller
}

func newBenchHost(b *testing.B, groups int, config string) *benchHost {
	b.Helper()
	root, err := hostfs.Open("/")
	if err != nil {
		b.Fatal(err)
	}
	host, err := cgroup.Open(root)
	if err != nil {
		b.Fatal(err)
	}
	h := &benchHost{b: b, root: root, host: host, dir: b.TempDir(), now: time.Hour}
	for i := range groups {
		g, err := scratch.New(host, "", scratch.Name(fmt.Sprintf("cost%d", i)))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = g.Close() })
		if err := g.SetMax(50000, 100000); err != nil {
			b.Fatal(err)
		}
		h.groups = append(h.groups, g)
	}
	h.write("agent.yaml", "workloadDir: w\nstateDir: s\ncpu-burst-config: {clusterStrategy: {sharePoolThresholdPercent: 100}}\n"+config)
	return h
}

// workload writes the file of a group's workload, with a field of its metadata.
func (h *benchHost) workload(i int, field string) {
	h.b.Helper()
	name := h.groups[i].Path()
	if field != "" {
		field = ", " + field
	}
	h.write("w/"+name+".yaml", fmt.Sprintf("apiVersion: berth.dev/v1alpha1\nkind: Workload\nmetadata: {name: %s%s}\nspec: {cgroup: %s}\n", name, field, name))
}

func (h *benchHost) clock() time.Duration {
	if h.live {
		return kernel.Monotonic()
	}
	return h.now
}

// start creates the controller.
func (h *benchHost) start() {
	h.b.Helper()
	config := filepath.Join(h.dir, "agent.yaml")
	cfg, err := manifest.LoadConfig(config)
	if err != nil {
		h.b.Fatal(err)
	}
	opts := Options{
		ConfigFile: config, Config: cfg, Root: h.root, Now: time.Now,
		Clock: h.clock, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if err := opts.describeKernel(); err != nil {
		h.b.Fatal(err)
	}
	j, err := journal.Open(cfg.StateDir, opts.BootID, cgroupfile.Values())
	if err != nil {
		h.b.Fatal(err)
	}
	applier := apply.New(cgroupfile.Kinds(h.host, nil), j, apply.Options{})
	h.c = newController(opts, h.host, j, writing{applier: applier, systemd: systemd.Runs()})
	h.b.Cleanup(func() {
		if err := h.c.stop(); err != nil {
			h.b.Error(err)
		}
		_ = j.Close()
	})
}

// apart reports whether the effective CPUs of the first group and of all other groups are disjoint.
func (h *benchHost) apart() bool {
	h.b.Helper()
	var sides [2]cpuset.Set
	for i, g := range h.groups {
		opened, err := h.host.Group(g.Path())
		if err != nil {
			h.b.Fatal(err)
		}
		cpus, err := opened.EffectiveCPUs()
		if err = errors.Join(err, opened.Close()); err != nil {
			h.b.Fatal(err)
		}
		sides[min(i, 1)] = sides[min(i, 1)].Union(cpus)
	}
	return !sides[0].Intersects(sides[1])
}

func (h *benchHost) write(name, content string) {
	h.b.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		h.b.Fatal(err)
	}
}
