package seeds

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// The load of wrk2 in the document: 24 requests a second on 12 connections. Each connection keeps its own rate from the
// same start, so the requests come in batches.
const (
	apacheBatch = 12
	apacheRate  = 2
	apacheFile  = 1 << 20
)

// apache is a web server that compresses a file for each request.
type apache struct {
	host

	address, dir string
}

// apacheModules are Debian's modules that the configuration needs.
func apacheModules() []string {
	return []string{"mpm_event", "authz_core", "deflate", "filter"}
}

func (h host) openApache(ctx context.Context) (_ Opened, err error) {
	if err := bench.Needs("apache2", "apache2-bin"); err != nil {
		return nil, err
	}
	a := &apache{host: h}
	if a.address, err = bench.FreeAddress(ctx); err != nil {
		return nil, err
	}
	if a.dir, err = os.MkdirTemp("", "berth-bench-"); err != nil {
		return nil, fmt.Errorf("apache: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	err = errors.Join(
		os.Chmod(a.dir, 0o755), // The workers of apache run as another user.
		os.WriteFile(filepath.Join(a.dir, "file"), compressible(ApacheFile(a.cpus())), 0o644),
		os.WriteFile(filepath.Join(a.dir, "apache.conf"), a.config(), 0o644))
	if err != nil {
		return nil, fmt.Errorf("apache: %w", err)
	}
	return a, nil
}

// ApacheFile returns the size of the file that apache compresses, in bytes: that of the document for its limit, and less
// for a smaller limit, so that the load is the same part of the limit.
func ApacheFile(cpus int) int { return apacheFile * cpus / documentCPUs }

// ApacheArrivals returns the requests of an arm.
func ApacheArrivals(a Arm) ([]time.Duration, error) {
	arrivals, err := load.Pattern{Rate: apacheRate, Batch: apacheBatch, Regular: true, Seed: a.Seed}.Arrivals(a.Duration)
	if err != nil {
		return nil, fmt.Errorf("apache: %w", err)
	}
	return arrivals, nil
}

// ApacheLoad describes the load of apache with a limit.
func ApacheLoad(cpus int) string {
	return fmt.Sprintf("open loop: %d requests at once, %d times a second, for a file of %d KiB; a limit of %d CPUs", apacheBatch, apacheRate, ApacheFile(cpus)>>10, cpus)
}

// compressible returns text that compresses to half of its size.
func compressible(n int) []byte {
	random := rand.NewChaCha8([32]byte{1})
	raw := make([]byte, n/2)
	_, _ = random.Read(raw) // It never fails.
	return hex.AppendEncode(nil, raw)
}

func (a *apache) config() []byte {
	var text []byte
	for _, m := range apacheModules() {
		text = fmt.Appendf(text, "LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n", m, m)
	}
	return fmt.Appendf(text, `Listen %s
ServerName localhost
User www-data
Group www-data
PidFile %s/pid
ErrorLog %s/error
DocumentRoot %s
ServerLimit 1
StartServers 1
ThreadsPerChild 64
MaxRequestWorkers 64
SetOutputFilter DEFLATE
`, a.address, a.dir, a.dir, a.dir)
}

func (a *apache) Load() string {
	return ApacheLoad(a.cpus())
}

func (a *apache) Run(ctx context.Context, arm Arm) (v Values, err error) {
	arrivals, err := ApacheArrivals(arm)
	if err != nil {
		return Values{}, err
	}
	quota := a.quotaOf(a.cpus())
	if arm.Name == Unlimited {
		quota = unit.NoLimit
	}
	stage, err := bench.Program{
		Name: "apache", Quota: quota, Address: a.address, Path: "/file", Encoding: "deflate, gzip",
		Argv: []string{"apache2", "-f", filepath.Join(a.dir, "apache.conf"), "-DFOREGROUND"},
	}.Open(ctx, a.Place)
	if err != nil {
		return Values{}, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	if arm.Name == Burst {
		annotations, err := bench.DefaultBurst().Annotations()
		if err != nil {
			return Values{}, fmt.Errorf("apache: %w", err)
		}
		agent, err := a.agent(stage, a.cpus(), annotations, cpuset.Set{})
		if err != nil {
			return Values{}, err
		}
		defer func() { err = errors.Join(err, agent.Remove()) }()
		if err := bench.AwaitRaise(ctx, agent, unit.CPUs(a.cpus()), stage); err != nil {
			return Values{}, err
		}
	}
	outcome, err := stage.Load(ctx, 0, arrivals)
	if err != nil {
		return Values{}, err
	}
	v = Values{Samples: outcome.Samples, Of: map[string]float64{}}
	for _, s := range outcome.Samples {
		if s.Status != 200 {
			return Values{}, fmt.Errorf("%w: apache answers %d after %s (may user www-data read %s?)", bench.ErrChild, s.Status, s.Latency.Round(time.Millisecond), a.dir)
		}
	}
	return v, nil
}

func (a *apache) Close() error {
	if err := os.RemoveAll(a.dir); err != nil {
		return fmt.Errorf("apache: %w", err)
	}
	return nil
}
