package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
)

// watchDOM records in touched which rows, CPUs and other parts of the page change.
const watchDOM = `window.touched = new Set();
	new MutationObserver((all) => {
		for (const { target } of all) {
			const element = target instanceof Element ? target : target.parentElement;
			const [row, cpu] = [element?.closest('#rows tr'), element?.closest('.cpu')];
			touched.add(row ? row.key : cpu ? 'CPU ' + cpu.dataset.cpu : element?.closest('[id]')?.id || 'elsewhere');
		}
	}).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true })`

// TestDeltaOfOne checks that the page changes only the row of the workload, and only the CPU, that a line changes.
func TestDeltaOfOne(t *testing.T) {
	first := shop(t).view(t)
	const name, cpu = "batch/reports-1/app", 5
	at := slices.IndexFunc(first.Workloads, func(w view.Workload) bool { return w.Name == name })
	var step, second atomic.Int64
	server := httptest.NewServer(window.Guard(nil, web.NewNode(func() (*view.View, error) {
		next := *first
		next.At = first.At.Add(time.Duration(second.Add(1)) * time.Second)
		if step.Load() > 0 {
			next.Workloads = slices.Clone(first.Workloads)
			quota := *next.Workloads[at].Quota
			quota.Credit = 90
			next.Workloads[at].Quota = &quota
		}
		if step.Load() > 1 {
			next.CPUs = slices.Clone(first.CPUs)
			next.CPUs[cpu].Load = 1
		}
		return &next, nil
	}, slog.New(slog.DiscardHandler)).Handler()))
	t.Cleanup(func() { kill(server) })
	p := look(t, server)
	row := fmt.Sprintf(`[...document.querySelectorAll('#rows tr')].find((r) => r.key === %q)`, name)
	p.do(chromedp.EmulateViewport(1440, 3000), script(`document.querySelector('.scroll').style.maxHeight = 'none'`))
	p.until(row + ` && document.getElementById('state').textContent === 'Live'`)
	seen := second.Load()
	for second.Load() < seen+2 { // the page has no more to do for the lines before
		time.Sleep(20 * time.Millisecond)
	}
	p.do(script(watchDOM))
	touched := func() string { return eval[string](p, `[...touched].sort().join()`) }
	step.Store(1)
	p.until(row + `.querySelector('.credit').textContent.startsWith('75')`)
	if got := touched(); got != name {
		t.Errorf("a new credit of %s changed %s", name, got)
	}
	p.do(script(`touched.clear()`))
	step.Store(2)
	p.until(fmt.Sprintf(`document.querySelector('.cpu[data-cpu="%d"] i').style.getPropertyValue('--load') === '1.00'`, cpu))
	if got := strings.TrimSuffix(touched(), ",figures"); got != fmt.Sprint("CPU ", cpu) { // the load of the node
		t.Errorf("a new load of CPU %d changed %s", cpu, got)
	}
	p.clean(server)
}

// readPage is what the page shows of the last view. Throttling is of more than one view, and where Tab leads depends on
// what the reader did. A meter without a value is not visible.
const readPage = `(() => {
	const parts = ['figures', 'notices', 'legend', 'cpus', 'columns', 'rows', 'workloads-title', 'events', 'changes', 'changes-count', 'report'];
	return parts.map((id) => {
		const copy = document.getElementById(id).cloneNode(true);
		for (const gone of copy.querySelectorAll('td.throttled')) gone.remove();
		for (const one of copy.querySelectorAll('[tabindex]')) one.removeAttribute('tabindex');
		for (const one of copy.querySelectorAll('.meter.without i')) one.removeAttribute('style');
		for (const one of copy.querySelectorAll('*')) { // in one order
			const all = [...one.attributes].map((a) => [a.name, a.value]).sort();
			for (const [name] of all) one.removeAttribute(name);
			for (const [name, value] of all) if (!(name === 'class' && one.localName === 'tr')) one.setAttribute(name, value);
		}
		return id + ' ' + copy.outerHTML.replace(/<dt>Throttled.*?<\/dd>/, '').replace(/<div class="bad">/g, '<div>');
	}).join('\n');
})()`

// TestManyDeltas checks that a long random series of deltas, each with patches and drawn by itself, ends in the same
// page as the last view alone, whose rows are sorted by a column that changes.
func TestManyDeltas(t *testing.T) {
	const steps = 60
	random := rand.New(rand.NewPCG(16, 7)) //nolint:gosec // a fixed series
	n := shop(t)
	pinned, throttled := n.pinned, n.throttled
	some := func(all []string) (chosen []string) {
		for _, one := range all {
			if random.IntN(5) > 0 {
				chosen = append(chosen, one)
			}
		}
		return chosen
	}
	var lines bytes.Buffer
	before := n.view(t)
	if err := json.NewEncoder(&lines).Encode(before); err != nil {
		t.Fatal(err)
	}
	was := before.Parts()
	for range steps {
		n.second += 1 + random.IntN(3)
		if random.IntN(4) == 0 {
			n.pinned, n.throttled = some(pinned), some(throttled)
		}
		if random.IntN(4) == 0 {
			n.reports = reports()[:random.IntN(2)]
		}
		before = n.view(t)
		is := before.Parts()
		line, err := is.Since(was)
		if err != nil {
			t.Fatal(err)
		}
		was = is
		lines.Write(line)
	}
	last, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(lines.Bytes(), []byte(`"patches":{"cpus":[`)) {
		t.Fatal("no patches")
	}
	many, one := replayed(t, lines.Bytes()), replayed(t, last)
	for range steps {
		many.press(kb.ArrowRight)
		many.settle()
	}
	many.until(fmt.Sprintf(`document.getElementById('moment').value.endsWith(', %d of %d')`, steps+1, steps+1))
	many.settle()
	want, got := strings.Split(eval[string](one, readPage), "\n"), strings.Split(eval[string](many, readPage), "\n")
	for i := range want {
		if i >= len(got) || want[i] != got[i] {
			t.Errorf("the page has\n%s\nwant\n%s", got[min(i, len(got)-1)], want[i])
		}
	}
}

// replayed opens the page of a recording, stopped, with its slider in focus, and sorted by credit. It is so high that all
// rows are seen.
func replayed(t *testing.T, lines []byte) *tab {
	t.Helper()
	recording, err := web.ReadRecording(bytes.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- recording.Serve(ctx, l, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	p := blank(t)
	p.do(chromedp.EmulateViewport(1440, 4000))
	p.open("http://"+l.Addr().String(), `document.body.classList.contains('drawn') && document.getElementById('state').textContent === 'Recording'`)
	p.do(script(`document.querySelector('.scroll').style.maxHeight = 'none'`))
	p.do(script(`const play = document.getElementById('play'); if (play.textContent === 'Pause') play.click()`))
	p.do(script(`[...document.querySelectorAll('#columns button')].find((b) => b.textContent === 'Credit').click(); document.getElementById('seek').focus()`))
	p.settle()
	return p
}

// settle waits until the page has drawn what it has, and filled what is seen.
func (p *tab) settle() {
	p.t.Helper()
	p.do(script(`window.settled = 0; const next = () => { if (++settled < 4) requestAnimationFrame(next); }; next()`))
	p.until(`settled >= 4`)
}
