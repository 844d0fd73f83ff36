package load_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/load"
)

// TestFiller checks that a filler makes requests at their times until it is stopped, and writes them to a file.
func TestFiller(t *testing.T) {
	cpus, err := kernel.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	name := filepath.Join(t.TempDir(), "requests.csv")
	filler := load.Filler{MiB: 4, Huge: true, Fill: cpus, Then: cpus, Every: time.Millisecond, Out: name}
	filled := false
	began := kernel.Monotonic()
	err = filler.Run(ctx, func() {
		filled = true
		time.AfterFunc(200*time.Millisecond, cancel)
	})
	if err != nil || !filled {
		t.Fatalf("filled %t, %v", filled, err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := load.ReadTouched(file)
	if err != nil || len(all) < 10 {
		t.Fatalf("%d requests, %v", len(all), err)
	}
	for i, r := range all {
		if r.Intended < began || i > 0 && r.Intended-all[i-1].Intended != time.Millisecond {
			t.Errorf("request %d was due at %s, the one before at %s", i, r.Intended, all[max(0, i-1)].Intended)
		}
		if r.Stall < 0 || r.Latency < r.Stall {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

func TestFillerRefuses(t *testing.T) {
	t.Parallel()
	for _, wrong := range []load.Filler{{}, {MiB: 1 << 30}, {MiB: 1, Every: -1}} {
		if err := wrong.Run(t.Context(), nil); !errors.Is(err, load.ErrBadLoad) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if _, err := load.ReadTouched(strings.NewReader("a,b,c\n1,2,x\n")); err == nil {
		t.Error("a request that is malformed can be read")
	}
}
