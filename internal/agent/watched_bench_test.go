package agent

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/test/large"
)

// BenchmarkWatched measures the CPU time and the resident memory of a process without viewers, with one, and with 100.
// The viewers follow the stream from a process of their own. Each second the process makes the view of an agent with
// 500 pods. In its place the viewers get a view of 512 CPUs and 500 workloads, of which all are busy and change, or a
// tenth: the files of the agent are plain, so that its own view changes little. The agent's loop does not run, so the
// arm without viewers is the process alone, without a view in memory. The difference from that arm is the cost of the
// viewers. -benchtime sets the seconds of an arm, such as 60x.
func BenchmarkWatched(b *testing.B) {
	n := newNodeOf(b, 500, 50)
	n.begins(b, costs{})
	var moments atomic.Pointer[[2]*view.View]
	v, second := &viewer{agent: n.controls}, 0
	server := httptest.NewServer(web.NewNode(func() (*view.View, error) {
		if _, err := v.look(); err != nil {
			return nil, err
		}
		second++
		return moments.Load()[second%2], nil
	}, slog.New(slog.DiscardHandler)).Handler())
	defer server.Close()
	for _, arm := range []struct{ viewers, busy int }{
		{0, 0}, {1, large.Workloads}, {viewers, large.Workloads}, {1, large.Workloads / 10}, {viewers, large.Workloads / 10},
	} {
		b.Run(fmt.Sprintf("viewers=%d/busy=%d", arm.viewers, arm.busy), func(b *testing.B) {
			if arm.viewers > 0 { // the two views in memory are a part of the cost of viewers
				moments.Store(&[2]*view.View{large.View(b, 0, arm.busy), large.View(b, 1, arm.busy)})
			}
			debug.FreeOSMemory() // of the arm before
			if arm.viewers > 0 {
				defer follow(b, server.URL, arm.viewers)()
			}
			for range 200 { // garbage, as an agent has whose loop runs
				if _, err := v.look(); err != nil {
					b.Fatal(err)
				}
			}
			var most float64
			began, before := time.Now(), cpuTime(b)
			for b.Loop() {
				time.Sleep(time.Second)
				most = max(most, resident(b))
			}
			b.ReportMetric(100*(cpuTime(b)-before).Seconds()/time.Since(began).Seconds(), "%cpu")
			b.ReportMetric(most, "MiB")
		})
	}
	if err := n.controls.stop(); err != nil {
		b.Error(err)
	}
	n.closeJournal()
}

// resident returns the resident memory of this process in MiB.
func resident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		b.Fatalf("/proc/self/statm is %q", text)
	}
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}
