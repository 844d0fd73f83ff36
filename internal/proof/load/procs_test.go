package load

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// TestProcs checks that each change of GOMAXPROCS counts once, and that a client reads the count.
func TestProcs(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	watch := &procsWatch{}
	go watch.run(ctx, runtime.GOMAXPROCS(0))
	address := testServer(t, newHandler(1, watch))
	has := func(changes int64) Procs {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; {
			p, err := ReadProcs(ctx, address)
			if err != nil {
				t.Fatal(err)
			}
			if p.Changes == changes || time.Now().After(end) {
				return p
			}
		}
	}
	if p := has(0); p.Max != runtime.GOMAXPROCS(0) || p.Threads < 1 {
		t.Errorf("%+v", p)
	}
	before := runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 3)
	defer runtime.GOMAXPROCS(before)
	if p := has(1); p.Changes != 1 || p.Max != before+3 {
		t.Errorf("%+v, GOMAXPROCS was %d", p, before)
	}
}
