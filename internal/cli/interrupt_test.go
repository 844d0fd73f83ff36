package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cli"
)

// TestInterrupted: an interrupted command ends at once with exit code 1. That applies to a wait for standard input that
// nobody closes, and to the simulation of a large cluster.
func TestInterrupted(t *testing.T) {
	silent, open := io.Pipe()
	t.Cleanup(func() { _ = open.Close() })
	for _, args := range [][]string{
		{"simulate", "-f", "-"},
		{"place", "--cpus", "1", "--topology", "-"},
	} {
		t.Run(args[0], func(t *testing.T) { interrupted(t, args, silent) })
	}
	t.Run("web", func(t *testing.T) { interrupted(t, []string{"web", "--replay", silentFile(t)}, silent) })
	t.Run("large", func(t *testing.T) {
		interrupted(t, []string{"simulate", "-f", "-"}, strings.NewReader(largeCluster(200, 20_000)))
	})
}

// silentFile returns a named pipe that a program holds open and never writes to.
func silentFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "silent")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(name, os.O_RDWR, 0) // opened for both it does not wait for a reader
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })
	return name
}

func interrupted(t *testing.T, args []string, in io.Reader) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	time.AfterFunc(50*time.Millisecond, stop)
	var out, complaint bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, args, cli.Streams{In: in, Out: &out, Err: &complaint}, "test")
	}()
	select {
	case code := <-ended:
		if code != 1 || complaint.String() != "berth: interrupted\n" || out.Len() > 0 {
			t.Errorf("exit code %d, %q, %q", code, complaint.String(), out.String())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("still runs")
	}
}

// largeCluster returns a cluster whose simulation lasts many seconds.
func largeCluster(nodes, pods int) string {
	var b strings.Builder
	for i := range nodes {
		fmt.Fprintf(&b, "---\n{apiVersion: berth.dev/v1alpha1, kind: NodeTopology, metadata: {name: n%d}, spec: {online: 0-31, "+
			"numaNodes: [{id: 0, cpus: 0-31, distances: [10]}], cores: [0-15, 16-31]}}\n", i)
	}
	fmt.Fprintf(&b, "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: %d, selector: {}, template: {spec: {containers: [{name: c, resources: {limits: {cpu: 1m}}}]}}}}\n", pods)
	return b.String()
}
