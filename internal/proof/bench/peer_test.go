package bench_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/proof/bench"
)

// server returns the command of this test binary as a program that listens at an address until it is stopped.
func server(t *testing.T) (command []string, address string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	return []string{"/proc/self/exe", "load", "serve", "--address", address}, address
}

// listens reports whether a program listens at the address.
func listens(address string) bool {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// awaitPeer waits until the peer listens.
func awaitPeer(t *testing.T, address string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !listens(address); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error("the peer does not run")
			return
		}
	}
}

// TestPeer: a peer runs until it is stopped.
func TestPeer(t *testing.T) {
	command, address := server(t)
	peer, err := bench.PeerOptions{Command: command, Settle: time.Millisecond}.Start(t.Context(), "group")
	if err != nil {
		t.Fatal(err)
	}
	var control bench.Control = peer
	awaitPeer(t, address)
	if n, err := control.Writes(); n != 0 || err != nil {
		t.Errorf("%d writes, %v", n, err)
	}
	if err := control.Stop(); err != nil || listens(address) {
		t.Errorf("stopped: %v, listens %t", err, listens(address))
	}
	if _, err := control.Writes(); !errors.Is(err, bench.ErrChild) {
		t.Errorf("a peer that has ended: %v", err)
	}
}

// TestPeerFails: a peer that ends during its settling time is an error, and no shell interprets its arguments.
func TestPeerFails(t *testing.T) {
	ended := bench.PeerOptions{Command: []string{"/proc/self/exe", "load", "$HOME;" + bench.PeerGroup}, Settle: time.Hour}
	if _, err := ended.Start(t.Context(), "a/b"); !errors.Is(err, bench.ErrChild) || !strings.Contains(err.Error(), "$HOME;a/b") {
		t.Errorf("a peer that ends: %v", err)
	}
	if _, err := (bench.PeerOptions{Command: []string{"/no/such/agent"}}).Start(t.Context(), ""); err == nil {
		t.Error("a program that is not there runs")
	}
}

// TestPeerInterrupted: a peer ends with its context, also during its settling time.
func TestPeerInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	command, address := server(t)
	go func() {
		awaitPeer(t, address)
		interrupt()
	}()
	if _, err := (bench.PeerOptions{Command: command, Settle: time.Hour}).Start(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if listens(address) {
		t.Error("the peer outlives its context")
	}
}
