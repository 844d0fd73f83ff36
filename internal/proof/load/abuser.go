package load

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Mode selects when an abuser burns.
type Mode string

// The modes of an abuser.
const (
	// Always burns without pause.
	Always Mode = "always"
	// OnOff burns for OnFor, rests for OffFor, and repeats.
	OnOff Mode = "onoff"
	// WhileRaised burns only while the quota in QuotaFile is above Above, that is, while quota is lent to it.
	WhileRaised Mode = "while-raised"
)

// Abuser is a workload that uses all the CPU time it gets.
type Abuser struct {
	Mode Mode
	// Calls are the long system calls in which it burns, empty for none: then it computes.
	Calls Calls
	// Threads is the number of threads that burn at once, 1..1024.
	Threads int
	// OnFor and OffFor are the two times of OnOff, both above 0.
	OnFor, OffFor time.Duration
	// QuotaFile is a cpu.cfs_quota_us or cpu.max that WhileRaised reads.
	QuotaFile string
	// Above is the quota in microseconds beyond which WhileRaised burns.
	Above int64
}

const (
	maxThreads = 1024
	// pollQuota is how often WhileRaised reads the quota: well below any period.
	pollQuota = time.Millisecond
	// turn is how long a thread burns before it reads the flag again.
	turn = 200 * time.Microsecond
)

// Run burns until ctx ends. It sets GOMAXPROCS above the number of its threads, so that they never starve the goroutine
// that decides.
func (a Abuser) Run(ctx context.Context) error {
	if a.Threads < 1 || a.Threads > maxThreads {
		return fmt.Errorf("abuser with %d threads (1..%d): %w", a.Threads, maxThreads, ErrBadLoad)
	}
	var burning atomic.Bool
	decide, err := a.decider(&burning)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(max(runtime.NumCPU(), a.Threads) + 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make(chan error, a.Threads+1)
	var threads sync.WaitGroup
	for range a.Threads {
		threads.Go(func() { failures <- a.burnWhile(ctx, &burning); cancel() })
	}
	failures <- decide(ctx)
	cancel()
	threads.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

func (a Abuser) decider(burning *atomic.Bool) (func(context.Context) error, error) {
	switch a.Mode {
	case Always:
		return func(ctx context.Context) error {
			burning.Store(true)
			<-ctx.Done()
			return nil
		}, nil
	case OnOff:
		if a.OnFor <= 0 || a.OffFor <= 0 {
			return nil, fmt.Errorf("abuser on %s off %s: %w", a.OnFor, a.OffFor, ErrBadLoad)
		}
		return func(ctx context.Context) error {
			for {
				burning.Store(true)
				if !paused(ctx, a.OnFor) {
					return nil
				}
				burning.Store(false)
				if !paused(ctx, a.OffFor) {
					return nil
				}
			}
		}, nil
	case WhileRaised:
		return func(ctx context.Context) error { return a.follow(ctx, burning) }, nil
	default:
		return nil, fmt.Errorf("abuser mode %q (always, onoff, while-raised): %w", a.Mode, ErrBadLoad)
	}
}

// follow sets burning to whether the quota is above a.Above or unlimited.
func (a Abuser) follow(ctx context.Context, burning *atomic.Bool) error {
	file, err := os.Open(a.QuotaFile)
	if err != nil {
		return fmt.Errorf("abuser: %w", err)
	}
	defer file.Close()
	buffer := make([]byte, 64)
	for paused(ctx, pollQuota) {
		n, _ := file.ReadAt(buffer, 0) // io.EOF is normal; parseQuota rejects an empty read.
		quota, err := parseQuota(string(buffer[:n]))
		if err != nil {
			return fmt.Errorf("abuser: %s: %w", a.QuotaFile, err)
		}
		burning.Store(quota < 0 || quota > a.Above)
	}
	return nil
}

// parseQuota returns the first number of cpu.max or cpu.cfs_quota_us, or -1 for unlimited.
func parseQuota(content string) (int64, error) {
	fields := strings.Fields(content)
	if len(fields) == 0 {
		return 0, fmt.Errorf("empty quota: %w", ErrBadLoad)
	}
	if fields[0] == "max" {
		return -1, nil
	}
	quota, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("quota %q: %w", fields[0], err)
	}
	return quota, nil
}

// burnWhile burns on one thread whenever the flag is set, until ctx ends.
func (a Abuser) burnWhile(ctx context.Context, burning *atomic.Bool) error {
	burn := func() error { return Burn(turn) }
	if a.Calls != NoCalls {
		calls, err := openCalls(a.Calls)
		if err != nil {
			return err
		}
		defer calls.close()
		burn = calls.next
	}
	for ctx.Err() == nil {
		if !burning.Load() {
			if !paused(ctx, pollQuota) {
				return nil
			}
			continue
		}
		if err := burn(); err != nil {
			return err
		}
	}
	return nil
}

// paused waits for d. It returns false when ctx ended, which stops an abuser.
func paused(ctx context.Context, d time.Duration) bool { return Pause(ctx, d) == nil }
