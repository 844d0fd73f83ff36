// Program pull shows, from a trace of the scheduler, how waiting threads of an online server get a CPU in each arm of
// `berth bench interference`: pulled by a CPU that becomes idle, moved by a tick, or not moved at all. It judges one
// claim; see Claim and Rule in report.go.
//
//	pull [--reserve PERCENT] [--duration 4s] [--reps 3] [--rate N] [--buffer MiB] [--json FILE] BERTH
//
// It needs root, and Linux 5.2. The trace buffer is a separate instance in tracefs. The program removes it at the end;
// the next run removes the instance of a killed run.
//
//	go build -o bin/ ./cmd/berth && sudo go run ./test/kernel/pull bin/berth
//	go run ./test/kernel/vm pull -hz 1000        # on our own kernel, in a virtual machine
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := untilStopped(context.Background())
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pull:", err)
		stop()
		os.Exit(1)
	}
}

// untilStopped returns a context that ends at a termination signal, including a closed terminal, because the program
// has to stop the trace. If nohup ignores SIGHUP, it stays ignored.
func untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, ends...)
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("pull", flag.ContinueOnError)
	flags.IntVar(&o.reserve, "reserve", 10, "percent of the CPUs that hogs leave free in the arm with a reserve; 0 leaves that arm out")
	flags.DurationVar(&o.duration, "duration", 4*time.Second, "load of one arm")
	flags.IntVar(&o.repetitions, "reps", 3, "repetitions of all arms")
	flags.Float64Var(&o.rate, "rate", 0, "requests a second; 0 is what berth takes")
	flags.IntVar(&o.buffer, "buffer", 128, "MiB of kernel memory for the events of one arm")
	file := flags.String("json", "", "where the report is written")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	if flags.NArg() != 1 || o.buffer < 1 {
		return errors.New("usage: pull [FLAG...] BERTH, the path of a berth")
	}
	o.berth = flags.Arg(0)
	report, err := record(ctx, o)
	if err != nil {
		return err
	}
	if *file != "" {
		text, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the report: %w", err)
		}
		if err := os.WriteFile(*file, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return report.Print(os.Stdout)
}

// record runs the benchmark and records the trace.
func record(ctx context.Context, o options) (r *Report, err error) {
	if r, err = host(); err != nil {
		return nil, err
	}
	r.Reserve = o.reserve
	t, err := openTracer(o.buffer, r.CPUs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	b := bench{options: o, tracer: t, report: r, say: func(arm string) { fmt.Fprintln(os.Stderr, "arm", arm) }}
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	r.close()
	return r, nil
}

// host returns an empty report of this host.
func host() (*Report, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("uname: %w", err)
	}
	// The coarse clock advances with each tick (kernel/time/posix-timers.c, posix_get_coarse_res).
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return nil, fmt.Errorf("length of a tick: %w", err)
	}
	return &Report{Kernel: unix.ByteSliceToString(name.Release[:]), HZ: int(time.Second / time.Duration(tick.Nano())), CPUs: runtime.NumCPU()}, nil
}
