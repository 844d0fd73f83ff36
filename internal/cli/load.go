package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/linux/process"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// newLoadCommand returns the hidden subcommands that demo and bench run as workloads, so that they need no other
// program on the machine.
func newLoadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "load",
		Short:  "Workloads for demo and bench",
		Hidden: true,
	}
	cmd.AddCommand(newLoadServe(), newLoadBurn(), newLoadFill(), newLoadHold(), newLoadPi(), newLoadCalls())
	return parent(cmd)
}

func newLoadServe() *cobra.Command {
	config, moves := load.ServerConfig{}, false
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve requests that burn CPU, until standard input ends",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if moves {
				return serveAnew(cmd.InOrStdin(), config)
			}
			ctx, cancel := untilInputEnds(cmd)
			defer cancel()
			out := cmd.OutOrStdout()
			return load.Serve(ctx, config, func(address string) { _, _ = fmt.Fprintln(out, address) })
		},
	}
	cmd.Flags().StringVar(&config.Address, "address", "", "loopback address to listen on (default: a free port)")
	cmd.Flags().IntVar(&config.Workers, "workers", 2*runtime.NumCPU(), "requests worked on at once")
	cmd.Flags().IntVar(&config.CPUs, "cpus", runtime.NumCPU(), "CPUs that the runtime uses, whatever the group's limit is; 0 leaves it to Go")
	cmd.Flags().BoolVar(&moves, "moves", false, "restart at the first byte of input, which comes after a move to another group: Go's runtime follows the group that it starts in")
	return cmd
}

// serveAnew waits for a byte of input and then replaces this process by the server.
func serveAnew(input io.Reader, config load.ServerConfig) error {
	if _, err := io.ReadFull(input, make([]byte, 1)); err != nil {
		return fmt.Errorf("serve: wait for the move to a group: %w", err)
	}
	return process.Become("/proc/self/exe", []string{
		"berth", "load", "serve", "--address", config.Address, "--workers", fmt.Sprint(config.Workers), "--cpus", fmt.Sprint(config.CPUs),
	}, os.Environ())
}

func newLoadBurn() *cobra.Command {
	abuser := load.Abuser{}
	mode, calls := string(load.Always), ""
	cmd := &cobra.Command{
		Use:   "burn",
		Short: "Burn CPU, until standard input ends",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilInputEnds(cmd)
			defer cancel()
			abuser.Mode, abuser.Calls = load.Mode(mode), load.Calls(calls)
			return abuser.Run(ctx)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&mode, "mode", mode, "when to burn: always, onoff or while-raised")
	flags.StringVar(&calls, "calls", calls, "burn in long system calls: all, random, splice, faults or futex; empty for none")
	flags.IntVar(&abuser.Threads, "threads", 2, "threads that burn")
	flags.DurationVar(&abuser.OnFor, "on", time.Second, "how long onoff burns")
	flags.DurationVar(&abuser.OffFor, "off", time.Second, "how long onoff rests")
	flags.StringVar(&abuser.QuotaFile, "quota-file", "", "the quota that while-raised follows")
	flags.Int64Var(&abuser.Above, "above", 0, "the quota in microseconds above which it is raised")
	return cmd
}

func newLoadFill() *cobra.Command {
	filler := load.Filler{}
	fill, then := "", ""
	cmd := &cobra.Command{
		Use:   "fill",
		Short: "Fill memory and work with it, until standard input ends",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, cancel := untilInputEnds(cmd)
			defer cancel()
			if filler.Fill, err = cpuset.Parse(fill); err != nil {
				return err
			}
			if filler.Then, err = cpuset.Parse(then); err != nil {
				return err
			}
			return filler.Run(ctx, func() { _, _ = fmt.Fprintln(cmd.OutOrStdout(), "filled") })
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&filler.MiB, "mib", 1, "how much memory")
	flags.BoolVar(&filler.Huge, "huge", false, "with huge pages")
	flags.StringVar(&fill, "fill", "0", "CPUs on which it fills")
	flags.StringVar(&then, "then", "0", "CPUs on which it goes on")
	flags.BoolVar(&filler.Hog, "hog", false, "write to all of it again and again")
	flags.DurationVar(&filler.Every, "every", 0, "time between two requests, 0 for none")
	flags.StringVar(&filler.Out, "out", "", "file for the requests")
	return cmd
}

func newLoadHold() *cobra.Command {
	return &cobra.Command{
		Use:   "hold",
		Short: "Do nothing, until standard input ends",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilInputEnds(cmd)
			defer cancel()
			<-ctx.Done()
			return nil
		},
	}
}

func newLoadPi() *cobra.Command {
	digits, threads, duration := 0, 0, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "pi",
		Short: "Wait for a byte of input, compute Pi again and again, print the mean time in milliseconds",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := io.ReadFull(cmd.InOrStdin(), make([]byte, 1)); err != nil {
				return fmt.Errorf("pi: wait for the move to a group: %w", err)
			}
			ctx, cancel := untilInputEnds(cmd)
			defer cancel()
			took, err := load.TimePi(ctx, digits, threads, duration)
			if err != nil {
				return err
			}
			return writeText(cmd.OutOrStdout(), fmt.Sprintf("%.3f\n", float64(took)/float64(time.Millisecond)))
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&digits, "digits", 20_000, "digits after the point")
	flags.IntVar(&threads, "threads", 3_000, "threads that share the work")
	flags.DurationVar(&duration, "for", 10*time.Second, "how long")
	return cmd
}

// newLoadCalls returns the command that bench runs before abusers in system calls.
func newLoadCalls() *cobra.Command {
	threads, runs := 2, 20
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "Print the longest CPU time of a long system call of each kind, in seconds, as JSON",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			times, err := load.TimeCalls(threads, runs)
			if err != nil {
				return fmt.Errorf("calls: %w", err)
			}
			return encode(cmd.OutOrStdout(), "json", times)
		},
	}
	cmd.Flags().IntVar(&threads, "threads", threads, "threads that make each call at once")
	cmd.Flags().IntVar(&runs, "runs", runs, "how often they make it")
	return cmd
}

// untilInputEnds returns a context that ends with the command's context or with its standard input. The parent holds
// the other end, so a workload never outlives the program that started it.
func untilInputEnds(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(cmd.Context())
	input := cmd.InOrStdin()
	go func() {
		_, _ = io.Copy(io.Discard, input) // the end of input is the message
		cancel()
	}()
	return ctx, cancel
}
