package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/internal/linux/process"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// RedisLoad is a data set in Redis, and the requests for it.
type RedisLoad struct {
	// Keys is the number of keys, with values of Size bytes. Requests is the number for each row of the table.
	Keys, Size, Requests int
	// Clients are the numbers of connections.
	Clients []int
}

// The arms of bench locality --redis, in the order of its table.
const (
	AllLocal   = "local"
	AllRemote  = "remote"
	Mixed      = "mixed"
	MixedMoved = "mixed, moved"
	MixedAgain = "mixed again"
)

func redisArms() []string { return []string{AllLocal, AllRemote, Mixed, MixedMoved, MixedAgain} }

// MixedPercent is the percentage of local pages of the arms Mixed, as in the document that Berth is measured by.
const MixedPercent = 43

// longestMillis is the longest latency that redis-benchmark counts; it prints a little more.
const longestMillis = 3000

// redisCPUs is how many CPUs the server has, as in the document that Berth is measured by.
const redisCPUs = 4

// RedisReport is the outcome of bench locality --redis. Its JSON is a stable contract.
type RedisReport struct {
	Machine Machine       `json:"machine"`
	Setup   LocalitySetup `json:"setup"`
	Load    RedisSetup    `json:"load"`
	Runs    []RedisRun    `json:"runs"`
	// Ratios compare each arm with mixed, run by run: Quantile is the metric, Window the load. A ratio is null with one
	// repetition, or if a latency reaches the longest that redis-benchmark counts.
	Ratios []RatioLine `json:"ratios"`
	Notes  []string    `json:"notes"`
}

// RedisSetup is the load.
type RedisSetup struct {
	Keys       int        `json:"keys"`
	Size       int        `json:"valueBytes"`
	Requests   int        `json:"requests"`
	ServerCPUs cpuset.Set `json:"serverCPUs"`
	ClientCPUs cpuset.Set `json:"clientCPUs"`
}

// RedisRun is one run of redis-benchmark.
type RedisRun struct {
	Arm        string `json:"arm"`
	Repetition int    `json:"repetition"`
	Clients    int    `json:"clients"`
	// OneKey is true if all requests were for one key, as without -r.
	OneKey bool `json:"oneKey"`
	// LocalPercent and LocalAfter are the percentages of the server's pages that were local at the start and at the
	// end.
	LocalPercent float64 `json:"localPercent"`
	LocalAfter   float64 `json:"localPercentAfter"`
	QPS          float64 `json:"qps"`
	P99          float64 `json:"p99Millis"`
	// P9999 is the latency of the first line at or above 99.99 %.
	P9999 float64 `json:"p9999Millis"`
}

// redisServer is a server with its data set, in its own group.
type redisServer struct {
	*subject

	set     RedisSetup
	socket  string
	clients *scratch.Group
}

// RunRedis measures all arms on one server, and spreads its pages again for each arm. Without two NUMA nodes, or the
// programs, the error matches ErrMissing.
func RunRedis(ctx context.Context, o LocalityOptions) (r *RedisReport, err error) {
	s, err := o.open()
	if err != nil {
		return nil, err
	}
	for program, from := range map[string]string{"redis-server": "redis-server", "redis-benchmark": "redis-tools"} {
		if err := Needs(program, from); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench locality: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r = &RedisReport{Machine: o.Machine, Setup: LocalitySetup{
		Local: s.local, Remote: s.remote, Repetitions: o.Repetitions, Virtual: s.virtual, Quick: o.Quick,
	}}
	r.Load = RedisSetup{Keys: o.Redis.Keys, Size: o.Redis.Size, Requests: o.Redis.Requests}
	for cpu := range s.localCPUs.All() {
		if r.Load.ServerCPUs.Size() < max(1, min(redisCPUs, s.localCPUs.Size()/2)) {
			r.Load.ServerCPUs = r.Load.ServerCPUs.Add(cpu)
		}
	}
	r.Load.ClientCPUs = s.localCPUs.Difference(r.Load.ServerCPUs)
	if r.Load.ClientCPUs.IsEmpty() {
		r.Load.ClientCPUs = s.remoteCPUs
	}
	if err := o.redis(ctx, s, dir, r); err != nil {
		return nil, err
	}
	r.compare()
	r.Notes = append(r.Setup.notes()[1:], "redis-benchmark has one thread, as in the document's command: it may be what bounds the requests a second",
		"where the kernel balances NUMA nodes (sysctl kernel.numa_balancing) it moves pages during a run too; compare LOCAL % with THEN",
		"one key: the document's command without -r, which never touches the data that moved",
		"redis-benchmark counts no latency above 3 s: 3000.32 ms is that or more, and has no ratio")
	return r, WriteSummary(o.Out, r)
}

// redis runs the server and all arms.
func (o *LocalityOptions) redis(ctx context.Context, s sides, dir string, r *RedisReport) (err error) {
	var groups [2]*scratch.Group
	for i, name := range []string{"redis", "clients"} {
		if groups[i], err = scratch.New(o.Place.Host, o.Place.Parent, scratch.Name("bench-"+name)); err != nil {
			return fmt.Errorf("group of %s: %w", name, err)
		}
		defer func() { err = errors.Join(err, groups[i].Close()) }()
		if err := groups[i].SetCPUs([]cpuset.Set{r.Load.ServerCPUs, r.Load.ClientCPUs}[i]); err != nil {
			return fmt.Errorf("CPUs of %s: %w", name, err)
		}
	}
	said, socket := &tail{}, filepath.Join(dir, "redis")
	server, err := limitless(said, "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no",
		"--dir", dir, "--maxclients", "20000", "--io-threads", strconv.Itoa(redisCPUs))
	if err != nil {
		return err
	}
	defer func() { _ = server.Signal(syscall.SIGTERM); _ = server.Wait() }() // The server saves nothing, so its end does not matter.
	alive := func() error {
		if server.Ended() {
			return fmt.Errorf("%w: redis-server: %s", ErrChild, said)
		}
		return nil
	}
	if err := groups[0].Attach(server.PID()); err != nil {
		return fmt.Errorf("group of redis: %w", errors.Join(err, alive()))
	}
	up := func() (bool, error) { _, err := os.Stat(socket); return err == nil, nil }
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := Await(starting, up, alive); err != nil {
		return fmt.Errorf("wait for redis-server: %w", err)
	}
	o.Progress(fmt.Sprintf("load %d keys", o.Redis.Keys))
	if err := o.Redis.Fill(ctx, socket); err != nil {
		return err
	}
	subject, err := o.subject(s, groups[0].Path(), server.PID(), alive)
	if err != nil {
		return err
	}
	return o.redisArms(ctx, &redisServer{subject, r.Load, socket, groups[1]}, r)
}

// limitless starts a program that may open as many files as allowed, for its connections.
func limitless(out io.Writer, args ...string) (*process.Process, error) {
	cmd := exec.Command("sh", append([]string{"-c", becomes, "sh"}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	p, err := process.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChild, err)
	}
	return p, nil
}

// Fill loads the keys that redis-benchmark requests with -r.
func (d RedisLoad) Fill(ctx context.Context, socket string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("load keys: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	both := errgroup.Group{}
	both.Go(func() error {
		return d.Commands(conn)
	})
	both.Go(func() error {
		in := bufio.NewScanner(conn)
		for i := range d.Keys {
			if !in.Scan() || in.Text() != "+OK" {
				return fmt.Errorf("%w: redis-server to key %d: %q", errors.Join(ErrChild, in.Err()), i, in.Text())
			}
		}
		return nil
	})
	if err := both.Wait(); err != nil {
		return fmt.Errorf("load keys: %w", err)
	}
	return nil
}

// Commands writes the commands that load the keys, in the protocol of Redis.
func (d RedisLoad) Commands(to io.Writer) error {
	out, value := bufio.NewWriterSize(to, 1<<20), bytes.Repeat([]byte("x"), d.Size)
	for i := range d.Keys {
		_, _ = fmt.Fprintf(out, "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$%d\r\n%s\r\n", i, d.Size, value) // Flush returns the errors.
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// redisArms runs all arms in rotating order.
func (o *LocalityOptions) redisArms(ctx context.Context, s *redisServer, r *RedisReport) error {
	for repetition := range o.Repetitions {
		for i := range redisArms() {
			name := redisArms()[(i+repetition)%len(redisArms())]
			for _, run := range o.runsOf(name, repetition) {
				o.Progress(fmt.Sprintf("repetition %d of %d, arm %s, %d clients", repetition+1, o.Repetitions, name, run.Clients))
				if err := o.redisRun(ctx, s, &run); err != nil {
					return fmt.Errorf("arm %s: %w", name, err)
				}
				r.Runs = append(r.Runs, run)
			}
		}
	}
	return nil
}

// runsOf returns the runs of an arm: for each number of clients, and for Mixed and MixedMoved also with one key.
func (o *LocalityOptions) runsOf(name string, repetition int) (runs []RedisRun) {
	for _, clients := range o.Redis.Clients {
		runs = append(runs, RedisRun{Arm: name, Repetition: repetition + 1, Clients: clients})
		if name == Mixed || name == MixedMoved {
			runs = append(runs, RedisRun{Arm: name, Repetition: repetition + 1, Clients: clients, OneKey: true})
		}
	}
	return runs
}

// redisRun spreads the pages of the server and makes one run.
func (o *LocalityOptions) redisRun(ctx context.Context, s *redisServer, run *RedisRun) (err error) {
	percent := map[string]int{AllLocal: 100, AllRemote: 0}
	share, pure := percent[run.Arm]
	if !pure {
		share = MixedPercent
	}
	if err := s.Place(share); err != nil {
		return err
	}
	if run.Arm == MixedMoved {
		if _, _, err := s.pass(ctx, 0); err != nil {
			return err
		}
	}
	if run.LocalPercent, err = s.Percent(); err != nil {
		return err
	}
	args := []string{
		"redis-benchmark", "-s", s.socket, "-t", "get", "--precision", "3", "-d", strconv.Itoa(s.set.Size),
		"-n", strconv.Itoa(s.set.Requests), "-c", strconv.Itoa(run.Clients),
	}
	if !run.OneKey {
		args = append(args, "-r", strconv.Itoa(s.set.Keys))
	}
	said, err := Output(ctx, s.clients, args...)
	if err != nil {
		return err
	}
	if o.Out != "" {
		name := fmt.Sprintf("run%02d-%s-%d-onekey-%t.txt", run.Repetition, slug(run.Arm), run.Clients, run.OneKey)
		if err := os.WriteFile(filepath.Join(o.Out, name), []byte(said), 0o644); err != nil {
			return fmt.Errorf("raw data: %w", err)
		}
	}
	if run.LocalAfter, err = s.Percent(); err != nil {
		return err
	}
	return run.Parse(said)
}

// Parse reads the figures from the output of redis-benchmark 7 with three digits of precision. The error is ErrChild.
func (run *RedisRun) Parse(printed string) error {
	const table = "avg       min       p50       p95       p99       max"
	for line := range strings.Lines(printed) {
		var percent, millis float64
		if _, err := fmt.Sscanf(line, "%f%% <= %f milliseconds", &percent, &millis); err == nil && percent >= 99.99 && run.P9999 == 0 {
			run.P9999 = millis
		}
		if _, rest, ok := strings.Cut(line, "throughput summary:"); ok {
			_, _ = fmt.Sscan(rest, &run.QPS) // A missing value is an error below.
		}
	}
	_, rest, _ := strings.Cut(printed, table)
	var other [4]float64
	_, err := fmt.Sscan(rest, &other[0], &other[1], &other[2], &other[3], &run.P99)
	if err != nil || run.QPS <= 0 || run.P9999 <= 0 {
		return fmt.Errorf("%w: redis-benchmark printed %q", ErrChild, printed)
	}
	return nil
}

// load describes the clients and their keys.
func (run RedisRun) load() string {
	if run.OneKey {
		return fmt.Sprintf("%d clients, one key", run.Clients)
	}
	return fmt.Sprintf("%d clients, all keys", run.Clients)
}

// redisMetrics returns the figures of a run by their names.
func redisMetrics() map[string]func(RedisRun) float64 {
	return map[string]func(RedisRun) float64{
		"QPS":    func(x RedisRun) float64 { return x.QPS },
		"p99":    func(x RedisRun) float64 { return x.P99 },
		"p99.99": func(x RedisRun) float64 { return x.P9999 },
	}
}

// Median returns the median of a metric over an arm's runs with a load, as in RatioLine, nil without runs.
func (r *RedisReport) Median(arm, with, metric string) *float64 {
	var values []float64
	for _, s := range r.shares(arm, with, redisMetrics()[metric]) {
		values = append(values, s.Part)
	}
	if len(values) == 0 {
		return nil
	}
	return new(load.Median(values))
}

// compare computes the ratios.
func (r *RedisReport) compare() {
	metrics := redisMetrics()
	for _, first := range r.Runs {
		if first.Repetition > 1 || first.Arm == Mixed {
			continue
		}
		for _, metric := range slices.Sorted(maps.Keys(metrics)) {
			line := RatioLine{Arm: first.Arm, Reference: Mixed, Quantile: metric, Window: first.load()}
			arm, mixed := r.shares(first.Arm, first.load(), metrics[metric]), r.shares(Mixed, first.load(), metrics[metric])
			if ratio, ok := load.PairedShares(arm, mixed); ok && (metric == "QPS" || !uncounted(arm, mixed)) {
				line.Ratio = &ratio
			}
			r.Ratios = append(r.Ratios, line)
		}
	}
}

// uncounted reports whether a latency reaches the longest that redis-benchmark counts.
func uncounted(arms ...[]load.Share) bool {
	return slices.ContainsFunc(slices.Concat(arms...), func(s load.Share) bool { return s.Part >= longestMillis })
}

// shares returns the measurements of an arm's runs with a load.
func (r *RedisReport) shares(arm, with string, measured func(RedisRun) float64) (all []load.Share) {
	for _, x := range r.Runs {
		if x.Arm == arm && x.load() == with {
			all = append(all, load.Share{Part: measured(x), Whole: 1})
		}
	}
	return all
}

// WriteRedisTable prints a report for people.
func WriteRedisTable(w io.Writer, r *RedisReport) error {
	p := NewPrinter(w)
	p.Line("%s", r.Machine.Line())
	p.Line("load: %d keys of %d bytes, %d requests a run; server on CPUs %s of node %d, clients on CPUs %s",
		r.Load.Keys, r.Load.Size, r.Load.Requests, r.Load.ServerCPUs, r.Setup.Local, r.Load.ClientCPUs)
	p.Line("")
	var rows [][]string
	for _, x := range r.Runs {
		rows = append(rows, []string{
			fmt.Sprint(x.Repetition), x.Arm, x.load(), fmt.Sprintf("%.2f", x.LocalPercent), fmt.Sprintf("%.2f", x.LocalAfter), fmt.Sprintf("%.0f", x.QPS), fine(&x.P99), fine(&x.P9999),
		})
	}
	p.Table([]string{"RUN", "ARM", "LOAD", "LOCAL %", "THEN", "QPS", "P99 MS", "P99.99 MS"}, rows)
	p.Line("")
	p.Table([]string{"RATIO", "OF", "TO", "LOAD", "ESTIMATE", "95 %"}, ratioRows(r.Ratios))
	for _, note := range r.Notes {
		p.Line("note: %s", note)
	}
	return p.Err()
}
