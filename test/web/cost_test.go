package web

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// TestCost checks that a page of 512 CPUs and 500 workloads, all of which change each second, costs the browser's main
// thread a few hundredths of a CPU. The bound allows for machines that are several times slower.
func TestCost(t *testing.T) {
	server := serve(t, &node{machine: large(), pinned: names("shop/web", 60), throttled: names("batch/job", 440)})
	p := look(t, server)
	if _, err := chromedp.Call(p.ctx, performance.Enable, performance.EnableParams{TimeDomain: "threadTicks"}); err != nil {
		t.Fatal(err)
	}
	spent := func() float64 {
		all, err := chromedp.Call(p.ctx, performance.GetMetrics, cdp.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all.Metrics {
			if one.Name == "TaskDuration" {
				return one.Value
			}
		}
		t.Fatal("no TaskDuration")
		return 0
	}
	const seconds = 5
	before := spent()
	time.Sleep(seconds * time.Second)
	share := (spent() - before) / seconds
	t.Logf("%.1f %% of a CPU", 100*share)
	if share > 0.2 {
		t.Errorf("%.1f %% of a CPU", 100*share)
	}
}
