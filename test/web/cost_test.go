package web

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// BenchmarkPage measures the page of 512 CPUs and 500 workloads, all of which change each second: the median time of
// five loads until the first paint, the bytes of the page without its data, and the CPU time of the browser's renderer as
// a percentage of a CPU, with all of its threads. -benchtime sets the seconds, such as 60x. The goals are a second,
// 300 kB and 5 %.
func BenchmarkPage(b *testing.B) {
	data := handler(b, &node{machine: large(), pinned: names("shop/web", 60), throttled: names("batch/job", 440)})
	files := &counting{Handler: data}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			data.ServeHTTP(w, r)
			return
		}
		files.ServeHTTP(w, r)
	}))
	b.Cleanup(func() { kill(server) })
	p := look(b, server)
	size := files.bytes.Load()
	var paints []float64
	for range 5 {
		p.open(server.URL, `document.body.classList.contains('drawn') && performance.getEntriesByName('first-contentful-paint').length`)
		paints = append(paints, eval[float64](p, `performance.getEntriesByName('first-contentful-paint')[0].startTime`))
	}
	slices.Sort(paints)
	began, before := time.Now(), renderers(b)
	for b.Loop() {
		time.Sleep(time.Second)
	}
	share := (renderers(b) - before).Seconds() / time.Since(began).Seconds()
	b.ReportMetric(paints[len(paints)/2], "ms-first-paint")
	b.ReportMetric(float64(size)/1000, "kB")
	b.ReportMetric(100*share, "%renderer")
	p.clean(server)
}

// renderers returns the CPU time of the renderers of this process's browser. Their stat files count in hundredths of a
// second.
func renderers(b *testing.B) time.Duration {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	const parent, user, system = 1, 11, 12 // behind the name of the program, which may have spaces
	parents, spent := map[int]int{}, map[int]time.Duration{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid := number(b, filepath.Base(filepath.Dir(file)))
		parents[pid] = number(b, fields[parent])
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err == nil && bytes.Contains(command, []byte("--type=renderer")) {
			spent[pid] = time.Duration(number(b, fields[user])+number(b, fields[system])) * 10 * time.Millisecond
		}
	}
	var all time.Duration
	found := false
	for pid, own := range spent {
		for pid > 1 && pid != os.Getpid() {
			pid = parents[pid]
		}
		if pid == os.Getpid() {
			all, found = all+own, true
		}
	}
	if !found {
		b.Fatal("this process has no browser with a renderer")
	}
	return all
}

func number(b *testing.B, text string) int {
	b.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
