// Program tour shows, in the cluster of `make cluster`, what Berth does with the manifests of ACK's and Koordinator's
// documentation: placements, masks, events, a CPU burst before and after, borrowed cores. `make demo-cluster` runs it,
// `make bench-cluster`, `make bench-agent-cluster` and `make bench-seeds` run its benchmarks. It deletes the objects that
// it creates, and leaves the cluster running.
//
//	tour            the whole tour
//	tour bench …    the load of `berth bench burst` with the server as a pod; --help lists the flags
//	tour cost …     what the agent itself costs at rest and with raised groups; --help lists the flags
//	tour seeds …    the experiments of `berth bench seeds` with pods; --help lists the flags
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/local"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tour:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	c, err := local.Running()
	if err != nil {
		return err
	}
	programs, err := cluster.Find()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	t := &tour{out: os.Stdout, cluster: c, client: client, kubectl: programs.Kubectl, kubeconfig: local.Kubeconfig(), loaded: loaded}
	defer t.leave() //nolint:contextcheck // also after ctx ended
	if len(args) == 0 {
		err := t.all(ctx)
		_, lendErr := t.lends(ctx, documentDigits) // It says itself why it shows nothing.
		return errors.Join(err, lendErr)
	}
	err = t.measure(ctx, args[0], args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return err
}

// measure runs a benchmark by its name.
func (t *tour) measure(ctx context.Context, name string, args []string) error {
	switch name {
	case "bench":
		b, err := parseBench(args, os.Stderr)
		if err != nil {
			return err
		}
		b.tour = t
		return b.run(ctx)
	case "cost":
		b, err := parseCost(args, os.Stderr)
		if err != nil {
			return err
		}
		b.tour = t
		return b.run(ctx)
	case "seeds":
		b, err := parseSeeds(args, os.Stderr)
		if err != nil {
			return err
		}
		b.tour = t
		return b.run(ctx)
	}
	return fmt.Errorf("usage: tour | tour bench [flags] | tour cost [flags] | tour seeds [flags] [NAME]...; not %q", name)
}
