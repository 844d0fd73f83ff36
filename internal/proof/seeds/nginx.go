package seeds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// nginx is nginx in one group and wrk in another.
type nginx struct {
	host

	address, dir string
	clients      *scratch.Group
	// free are the CPUs that nginx may have, beside those of the clients.
	free, clientCPUs cpuset.Set
}

func (h host) openNginx(ctx context.Context) (_ Opened, err error) {
	online := h.machine.Online
	n := &nginx{host: h}
	for cpu := range online.All() {
		if n.free = n.free.Add(cpu); n.free.Size() == online.Size()-max(1, online.Size()/4) {
			break
		}
	}
	n.clientCPUs = online.Difference(n.free)
	if n.free.Size() < 2 || n.clientCPUs.IsEmpty() {
		return nil, fmt.Errorf("%w three CPUs: two for nginx to choose from, and one for wrk", bench.ErrMissing)
	}
	if err := errors.Join(bench.Needs("nginx", "nginx"), bench.Needs("wrk", "wrk")); err != nil {
		return nil, err
	}
	if n.address, err = bench.FreeAddress(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if n.dir, err = os.MkdirTemp("", "berth-bench-"); err != nil {
		return nil, fmt.Errorf("nginx: %w", err)
	}
	if err := os.WriteFile(filepath.Join(n.dir, "nginx.conf"), n.config(), 0o600); err != nil {
		return nil, fmt.Errorf("nginx: %w", err)
	}
	if n.clients, err = scratch.New(h.Place.Host, h.Place.Parent, scratch.Name("bench-clients")); err != nil {
		return nil, fmt.Errorf("group of wrk: %w", err)
	}
	if err := n.clients.SetCPUs(n.clientCPUs); err != nil {
		return nil, fmt.Errorf("group of wrk: %w", err)
	}
	return n, nil
}

// cpus is at most half of the free CPUs, so that there is a choice.
func (n *nginx) cpus() int { return min(documentCPUs, n.free.Size()/2) }

// config is that of a server with a worker for each CPU, which answers with a page as long as nginx's own.
func (n *nginx) config() []byte {
	return fmt.Appendf(nil, `daemon off; user root; worker_processes %d; pid %s/pid; error_log /dev/null;
events { worker_connections 1024; }
http { access_log off; server { listen %s; location / { return 200 %q; } } }
`, n.cpus(), n.dir, n.address, strings.Repeat("x", 612))
}

func (n *nginx) Load() string {
	return fmt.Sprintf("wrk -t %d -c 100 on CPUs %s, nginx with a limit of %d CPUs on CPUs %s", n.clientCPUs.Size(), n.clientCPUs, n.cpus(), n.free)
}

func (n *nginx) Run(ctx context.Context, a Arm) (v Values, err error) {
	stage, err := bench.Program{
		Name: "nginx", Quota: n.quotaOf(n.cpus()), Address: n.address,
		Argv: []string{"nginx", "-p", n.dir, "-c", filepath.Join(n.dir, "nginx.conf")},
	}.Open(ctx, n.Place)
	if err != nil {
		return Values{}, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	cpus := n.free
	if a.Name == Scattered {
		cpus = n.scatter(n.free, n.cpus())
	}
	if err := stage.Group().SetCPUs(cpus); err != nil {
		return Values{}, fmt.Errorf("CPUs of nginx: %w", err)
	}
	if a.Name == Pinned {
		agent, err := n.pin(ctx, stage, n.cpus(), "", n.clientCPUs)
		if err != nil {
			return Values{}, err
		}
		defer func() { err = errors.Join(err, agent.Remove()) }()
	}
	said, err := bench.Output(ctx, n.clients, "wrk", "--timeout", "2s", "--latency", "-t", fmt.Sprint(n.clientCPUs.Size()), "-c", "100",
		"-d", fmt.Sprintf("%.0fs", max(1, a.Duration.Seconds())), "http://"+n.address+"/")
	if err != nil {
		return Values{}, err
	}
	v, err = ParseWrk(said)
	return v, err
}

func (n *nginx) Close() error {
	var errs []error
	if n.clients != nil {
		errs = append(errs, n.clients.Close())
	}
	if err := os.RemoveAll(n.dir); err != nil {
		errs = append(errs, fmt.Errorf("nginx: %w", err))
	}
	return errors.Join(errs...)
}

// ParseWrk reads the figures of nginx from the output of wrk with --latency. The error is bench.ErrChild.
func ParseWrk(said string) (Values, error) {
	v := Values{Of: map[string]float64{}, Raw: said}
	names := map[string]string{"Latency": "mean", "50%": "p50", "75%": "p75", "90%": "p90", "99%": "p99"}
	for line := range strings.Lines(said) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		if words[0] == "Requests/sec:" {
			var rate float64
			if _, err := fmt.Sscan(words[1], &rate); err == nil {
				v.Of["requests"] = rate
			}
		}
		if d, err := time.ParseDuration(words[1]); err == nil && names[words[0]] != "" {
			v.Of[names[words[0]]] = float64(d) / float64(time.Microsecond)
		}
	}
	if len(v.Of) != len(names)+1 {
		return Values{}, fmt.Errorf("%w: wrk printed %q", bench.ErrChild, said)
	}
	return v, nil
}
