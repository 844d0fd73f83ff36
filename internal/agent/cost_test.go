package agent

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/manifest"
	"github.com/berth-project/berth/internal/scratch"
)

// BenchmarkGroupSecond measures one second of looks at real groups whose quota
// stands: what the agent spends on a group that does nothing special. The clock
// is the benchmark's, the files are the kernel's.
func BenchmarkGroupSecond(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("makes cgroups: needs root")
	}
	const groups = 40
	c, advance := benchController(b, groups)
	for range 30 {
		c.pass()
		advance()
	}
	b.ReportAllocs()
	for b.Loop() {
		for range int(time.Second / benchStep) {
			c.pass()
			advance()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/groups, "µs/group/s")
}

const benchStep = 100 * time.Millisecond

func benchController(b *testing.B, groups int) (c *controller, advance func()) {
	b.Helper()
	root, err := hostfs.Open("/")
	if err != nil {
		b.Fatal(err)
	}
	host, err := cgroup.Open(root)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	for i := range groups {
		g, err := scratch.New(host, "", scratch.Name(fmt.Sprintf("cost%d", i)))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = g.Close() })
		if err := g.SetMax(50000, 100000); err != nil {
			b.Fatal(err)
		}
		write(b, filepath.Join(dir, "w", g.Path()+".yaml"), fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: %s, annotations: {koordinator.sh/cpuBurst: '{"policy":"cfsQuotaBurstOnly"}'}}
spec: {cgroup: %s}
`, g.Path(), g.Path()))
	}
	write(b, filepath.Join(dir, "agent.yaml"), "workloadDir: w\nstateDir: s\n"+
		"cpu-burst-config: {clusterStrategy: {sharePoolThresholdPercent: 100}}\n")
	cfg, err := manifest.LoadConfig(filepath.Join(dir, "agent.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	now := time.Hour
	opts := Options{
		ConfigFile: filepath.Join(dir, "agent.yaml"), Config: cfg, Root: root, Now: time.Now,
		Clock: func() time.Duration { return now }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if err := opts.describeKernel(); err != nil {
		b.Fatal(err)
	}
	j, err := journal.Open(cfg.StateDir, opts.BootID, cgroupfile.Values())
	if err != nil {
		b.Fatal(err)
	}
	c = newController(opts, host, j, apply.New(cgroupfile.Kinds(host, nil), j, apply.Options{}))
	b.Cleanup(func() {
		if err := c.stop(); err != nil {
			b.Error(err)
		}
		_ = j.Close()
	})
	return c, func() { now += benchStep }
}

func write(b *testing.B, path, content string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
}
