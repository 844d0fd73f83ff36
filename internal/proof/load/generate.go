package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Generator sends requests to a server of this package.
type Generator struct {
	// Address is the server's host:port, an address of this machine or of a private network: no load goes elsewhere.
	Address string
	// Work is the CPU time each request burns, 0..MaxWork.
	Work time.Duration
	// Path is what requests ask for, "" for /work of this package's server. Encoding is their Accept-Encoding, "" for
	// none.
	Path, Encoding string
	// Connections bounds the requests in flight; 0 means 256. Further requests wait, and their waiting counts as
	// latency.
	Connections int
	// Drain bounds the wait for answers after the last intended start; 0 means 30 s.
	Drain time.Duration
}

const (
	defaultConnections = 256
	defaultDrain       = 30 * time.Second
)

// Run sends one request at each of the arrivals (ascending, as Pattern.Arrivals returns them) and returns one sample
// for each, in that order. It returns when all are answered or given up, or early with ctx's error; no goroutine
// outlives it.
func (g Generator) Run(ctx context.Context, arrivals []time.Duration) ([]Sample, error) {
	if err := g.check(arrivals); err != nil || len(arrivals) == 0 {
		return nil, err
	}
	limit := arrivals[len(arrivals)-1] + cmpOr(g.Drain, defaultDrain)
	sending, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client := g.client()
	defer client.CloseIdleConnections()

	samples := make([]Sample, len(arrivals))
	due := make(chan int, len(arrivals))
	start := time.Now()
	var senders sync.WaitGroup
	for range min(cmpOr(g.Connections, defaultConnections), len(arrivals)) {
		senders.Go(func() {
			for i := range due {
				samples[i] = g.send(sending, client, start, arrivals[i])
			}
		})
	}
	pace(sending, start, arrivals, due)
	close(due)
	senders.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("generate load on %s: %w", g.Address, err)
	}
	return samples, nil
}

func (g Generator) check(arrivals []time.Duration) error {
	host, _, err := net.SplitHostPort(g.Address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !isOwn(ip) {
		return fmt.Errorf("generate load on %q: not an address of this machine or a private network: %w", g.Address, ErrBadLoad)
	}
	if g.Work < 0 || g.Work > MaxWork || len(arrivals) > MaxArrivals {
		return fmt.Errorf("generate %d requests of %s: %w", len(arrivals), g.Work, ErrTooMuch)
	}
	if !slices.IsSorted(arrivals) {
		return fmt.Errorf("generate %d requests out of order: %w", len(arrivals), ErrBadLoad)
	}
	return nil
}

// isOwn reports whether no host outside has the address: loopback, private networks, and 198.18.0.0/15, which RFC 2544
// reserves for benchmarks.
func isOwn(ip net.IP) bool {
	benchmark := net.IPNet{IP: net.IPv4(198, 18, 0, 0), Mask: net.CIDRMask(15, 32)}
	return ip.IsLoopback() || ip.IsPrivate() || benchmark.Contains(ip)
}

// client returns an HTTP client that reuses its connections, so that arms differ in the server's CPU time and not in
// handshakes.
func (g Generator) client() *http.Client {
	connections := cmpOr(g.Connections, defaultConnections)
	return &http.Client{Transport: &http.Transport{
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: connections,
		MaxConnsPerHost:     connections,
		DisableCompression:  true,
	}}
}

// pace sends the index of each request to due at its intended time. due has room for all, so a slow server never delays
// pace.
func pace(ctx context.Context, start time.Time, arrivals []time.Duration, due chan<- int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, at := range arrivals {
		if wait := time.Until(start.Add(at)); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		due <- i
	}
}

func (g Generator) send(ctx context.Context, client *http.Client, start time.Time, at time.Duration) Sample {
	sample := Sample{Intended: at}
	path := g.Path
	if path == "" {
		path = fmt.Sprintf("/work?us=%d", g.Work.Microseconds())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.Address+path, http.NoBody)
	if err == nil {
		if g.Encoding != "" {
			request.Header.Set("Accept-Encoding", g.Encoding)
		}
		var response *http.Response
		if response, err = client.Do(request); err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close() // Read to its end: Close frees the connection for reuse.
			sample.Status = response.StatusCode
		}
	}
	if err != nil {
		sample.Status = 0
	}
	sample.Latency = time.Since(start) - at
	return sample
}

// cmpOr returns v, or otherwise when v is zero or less.
func cmpOr[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}
