package cli_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/test/large"
)

// BenchmarkTopInATerminal shows a machine of 512 CPUs and 500 workloads in the real terminal of TestTopInATerminal. Each
// second all workloads change, or a tenth of them. It reports the time until the first frame, and the CPU time of berth
// top while it runs. -benchtime sets the seconds, such as 60x. The time begins before the shell reads the command, and
// ends up to one look at the screen late, so it is at least the true time. The goals are 300 ms and 1 % of a CPU.
func BenchmarkTopInATerminal(b *testing.B) {
	for _, busy := range []int{large.Workloads, large.Workloads / 10} {
		b.Run(fmt.Sprintf("busy=%d", busy), func(b *testing.B) { topOf(b, busy) })
	}
}

// topOf measures berth top while this many workloads change.
func topOf(b *testing.B, busy int) {
	b.Helper()
	moments, second := [2]*view.View{large.View(b, 0, busy), large.View(b, 1, busy)}, 0
	p := newPane(b, moments[0])
	p.end()
	p.serveFrom(func() (*view.View, error) {
		second++
		return moments[second%len(moments)], nil
	})
	began := time.Now()
	p.enter(". ./show")
	p.untilSeen(time.Millisecond, "a frame", func(screen string) bool {
		return strings.HasPrefix(screen, "berth top "+large.Version) && strings.HasSuffix(screen, keysOfTop)
	})
	first := time.Since(began)
	began, before := time.Now(), ticks(b, p.pid())
	for b.Loop() {
		time.Sleep(time.Second)
	}
	spent := ticks(b, p.pid()) - before
	b.ReportMetric(float64(first.Milliseconds()), "ms-first-frame")
	b.ReportMetric(100*spent.Seconds()/time.Since(began).Seconds(), "%cpu")
	p.press("q")
	p.ended()
}

// ticks returns the CPU time of a process from its stat file, which counts in hundredths of a second.
func ticks(b *testing.B, pid int) time.Duration {
	b.Helper()
	text := content(b, fmt.Sprintf("/proc/%d/stat", pid))
	const user, system = 11, 12 // behind the name of the program, which may have spaces
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(fields) <= system {
		b.Fatalf("the stat file is %q", text)
	}
	var all time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		all += time.Duration(n) * 10 * time.Millisecond
	}
	return all
}
