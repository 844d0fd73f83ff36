package seeds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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
	// cpus is the limit of nginx.
	cpus int
}

func (h host) openNginx(ctx context.Context) (_ Opened, err error) {
	online := h.machine.Online
	clients, cpus, err := NginxShare(online.Size())
	if err != nil {
		return nil, err
	}
	n := &nginx{host: h, cpus: cpus}
	for cpu := range online.All() {
		if n.free = n.free.Add(cpu); n.free.Size() == online.Size()-clients {
			break
		}
	}
	n.clientCPUs = online.Difference(n.free)
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
	if err := os.WriteFile(filepath.Join(n.dir, "nginx.conf"), []byte(NginxConfig(n.cpus, n.dir, n.address)), 0o600); err != nil {
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

// NginxConfig returns the configuration of a server with so many workers, which answers with a page as long as nginx's
// own. The directory gets its PID file.
func NginxConfig(workers int, dir, listen string) string {
	return fmt.Sprintf(`daemon off; user root; worker_processes %d; pid %s/pid; error_log /dev/null;
events { worker_connections 1024; }
http { access_log off; server { listen %s; location / { return 200 %q; } } }
`, workers, dir, listen, strings.Repeat("x", 612))
}

// Wrk returns the command of an arm's clients.
func Wrk(threads int, a Arm, url string) []string {
	return []string{
		"wrk", "--timeout", "2s", "--latency", "-t", strconv.Itoa(threads), "-c", "100",
		"-d", fmt.Sprintf("%.0fs", max(1, a.Duration.Seconds())), url,
	}
}

// NginxShare divides a machine with so many CPUs between the clients and nginx, which may have at most half of the rest,
// so that there is a choice. The error is bench.ErrMissing.
func NginxShare(online int) (clients, limit int, err error) {
	clients = max(1, online/4)
	if online-clients < 2 {
		return 0, 0, fmt.Errorf("%w three CPUs: two for nginx to choose from, and one for wrk", bench.ErrMissing)
	}
	return clients, min(documentCPUs, (online-clients)/2), nil
}

func (n *nginx) Load() string {
	return fmt.Sprintf("wrk -t %d -c 100 on CPUs %s, nginx with a limit of %d CPUs on CPUs %s", n.clientCPUs.Size(), n.clientCPUs, n.cpus, n.free)
}

func (n *nginx) Run(ctx context.Context, a Arm) (v Values, err error) {
	stage, err := bench.Program{
		Name: "nginx", Quota: n.quotaOf(n.cpus), Address: n.address,
		Argv: []string{"nginx", "-p", n.dir, "-c", filepath.Join(n.dir, "nginx.conf")},
	}.Open(ctx, n.Place)
	if err != nil {
		return Values{}, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	cpus := n.free
	if a.Name == Scattered {
		cpus = n.scatter(n.free, n.cpus)
	}
	if err := stage.Group().SetCPUs(cpus); err != nil {
		return Values{}, fmt.Errorf("CPUs of nginx: %w", err)
	}
	if a.Name == Pinned {
		agent, err := n.pin(ctx, stage, n.cpus, "", n.clientCPUs)
		if err != nil {
			return Values{}, err
		}
		defer func() { err = errors.Join(err, agent.Remove()) }()
	}
	said, err := bench.Output(ctx, n.clients, Wrk(n.clientCPUs.Size(), a, "http://"+n.address+"/")...)
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
