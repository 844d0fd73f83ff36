package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/berth-project/berth/internal/agent/view"
)

// TestMovesOfRows checks the rows after each of many lines in which few of them move, sorted by throttling. A share that
// falls to 0 moves a row although its workload is the same.
func TestMovesOfRows(t *testing.T) {
	const steps, rows = 40, 40
	random := rand.New(rand.NewPCG(16, 8)) //nolint:gosec // a fixed series
	now := shop(t).view(t)
	model := now.Workloads[slices.IndexFunc(now.Workloads, func(w view.Workload) bool { return w.Quota != nil })]
	now.Workloads = make([]view.Workload, rows)
	for i := range now.Workloads {
		now.Workloads[i] = view.Workload{Name: fmt.Sprintf("w-%02d", i), CPUs: model.CPUs, Quota: model.Quota}
	}
	var lines bytes.Buffer
	if err := json.NewEncoder(&lines).Encode(now); err != nil {
		t.Fatal(err)
	}
	var want [steps]string
	for step := range steps {
		next := *now
		next.At = now.At.Add(time.Second)
		next.Workloads = slices.Clone(now.Workloads)
		changed, throttled := random.IntN(rows/8), uint64(0)
		if step%3 < 2 { // in the other lines no group ran
			quota := *next.Workloads[changed].Quota
			throttled = 1 + random.Uint64N(9)
			quota.Periods, quota.Throttled = quota.Periods+10, quota.Throttled+throttled
			next.Workloads[changed].Quota = &quota
		}
		line, err := next.Parts().Since(now.Parts())
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(line)
		want[step], now = byThrottling(next.Workloads, changed, throttled), &next
	}
	p := replayed(t, lines.Bytes())
	p.do(script(`[...document.querySelectorAll('#columns button')].find((b) => b.textContent === 'Throttled').click()`))
	for step := range steps {
		p.press(kb.ArrowRight)
		p.until(fmt.Sprintf(`document.getElementById('moment').value.endsWith(', %d of %d')`, step+2, steps+1))
		p.settle()
		if got := eval[string](p, `[...document.querySelectorAll('#rows tr')].map((r) => r.key + ' ' + parseInt(r.lastChild.textContent)).join()`); got != want[step] {
			t.Fatalf("line %d: the rows are\n%s\nwant\n%s", step+1, got, want[step])
		}
	}
}

// byThrottling returns the rows if all shares are 0, except that of one workload, in tenths.
func byThrottling(all []view.Workload, throttled int, tenths uint64) string {
	var rows []string
	for i := range all {
		if i != throttled || tenths == 0 {
			rows = append(rows, all[i].Name+" 0")
		}
	}
	if tenths > 0 {
		rows = slices.Insert(rows, 0, fmt.Sprint(all[throttled].Name, " ", tenths*10))
	}
	return strings.Join(rows, ",")
}
