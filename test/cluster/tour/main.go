// Program tour shows in the cluster of `make cluster` what Berth does with the manifests of
// ACK's and Koordinator's documentation: placements, masks, events, and a burst before and
// after. It is what `make demo-cluster` runs. What it creates it deletes again; the cluster
// stays.
package main

import (
	"context"
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
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "tour:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
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
	t := &tour{out: os.Stdout, cluster: c, client: client, kubectl: programs.Kubectl, kubeconfig: local.Kubeconfig()}
	defer t.leave() //nolint:contextcheck // also after ctx ended
	return t.all(ctx)
}
