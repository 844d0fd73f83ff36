package web

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
)

// browser is the browser of all tests, each of which has its own tab.
var browser context.Context

// TestMain starts the browser without its sandbox, which root cannot use. It shows only the pages of these tests.
func TestMain(m *testing.M) {
	ctx, stop := chromedp.NewExecAllocator(context.Background(), //nolint:forbidigo // there is no t yet
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU)...)
	browser, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "start chromium (make deps installs it):", err)
		os.Exit(1)
	}
	code := m.Run()
	stop()
	chromedp.FromContext(ctx).Allocator.Wait()
	os.Exit(code)
}

// slow is how long a browser may take on a slow machine.
const slow = 5 * time.Minute

// tab is an open page.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu sync.Mutex
	// asked are the addresses that the page requested; said are its error messages.
	asked, said []string
	// cut reports that the browser aborted a part of the page, because the network changed.
	cut bool
}

// blank opens an empty tab.
func blank(t testing.TB) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, p.hear); err != nil { // opens the tab, which lives as long as this context
		t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(1440, 1000))
	return p
}

// hear records the page's requests and error messages.
func (p *tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	case *network.EventLoadingFailed: // the page itself repeats its own fetches
		p.cut = p.cut || e.ErrorText == "net::ERR_NETWORK_CHANGED" && e.Type != network.ResourceTypeFetch
	case *runtime.EventExceptionThrown:
		p.said = append(p.said, e.ExceptionDetails.Text+" "+fmt.Sprint(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		p.said = append(p.said, fmt.Sprint("console: ", e.Type))
	}
}

// look opens the page of a server, and waits until it is drawn.
func look(t testing.TB, server *httptest.Server) *tab {
	t.Helper()
	p := blank(t)
	p.open(server.URL, `document.body.classList.contains('drawn')`)
	return p
}

// open opens an address, and waits until an expression is true. When a network interface of the machine appears or
// disappears, as those of containers do beside these tests, the browser aborts its loads. A page without one of its
// scripts draws nothing, so open opens it again.
func (p *tab) open(address, expression string) {
	p.t.Helper()
	p.openBy(func() error { return chromedp.Do(p.ctx, chromedp.Navigate(address)) }, expression)
}

// openHanging is open for a page that never loads completely.
func (p *tab) openHanging(address, expression string) {
	p.t.Helper()
	p.openBy(func() error {
		_, err := chromedp.Call(p.ctx, page.Navigate, page.NavigateParams{URL: address})
		return err
	}, expression)
}

func (p *tab) openBy(navigate func() error, expression string) {
	p.t.Helper()
	for end := time.Now().Add(slow); ; {
		err := navigate()
		for err == nil && !p.wasCut() {
			switch {
			case eval[bool](p, "Boolean("+expression+")"):
				return
			case time.Now().After(end):
				p.t.Fatalf("%s: the page says %q, complains of %q", expression, eval[string](p, `document.body.innerText.slice(0, 500)`), p.said)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if !p.wasCut() {
			p.t.Fatal(err)
		}
		p.mu.Lock()
		p.cut = false
		p.mu.Unlock()
	}
}

func (p *tab) wasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// do performs actions in the tab.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, slow)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// until waits until an expression is true.
func (p *tab) until(expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool]("Boolean("+expression+")", chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(slow))); err != nil {
		p.t.Fatalf("%s: %v; the page says %q, complains of %q", expression, err, eval[string](p, `document.body.innerText.slice(0, 500)`), p.said)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](p *tab, expression string, options ...chromedp.EvaluateOption) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, slow)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// press presses the keys one after the other.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// like makes the tab prefer a color scheme on a screen of some size.
func (p *tab) like(scheme string, width, height int64) {
	p.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		p.t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(width, height))
}

// clean fails the test if the page reported an error, or requested something from another server.
func (p *tab) clean(server *httptest.Server) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.said) > 0 {
		p.t.Errorf("the page complained: %q", p.said)
	}
	for _, address := range p.asked {
		if !strings.HasPrefix(address, server.URL+"/") {
			p.t.Errorf("the page asked for %s", address)
		}
	}
	if len(p.asked) == 0 {
		p.t.Error("no request was seen")
	}
}

// serve shows a node that advances by a second with each view.
func serve(t testing.TB, n *node) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler(t, n))
	t.Cleanup(func() { kill(server) })
	return server
}

// kill ends a server with its streams. It closes the listener first, because Close would wait for new streams.
func kill(server *httptest.Server) {
	_ = server.Listener.Close()
	server.CloseClientConnections()
	server.Close()
}

// handler returns the handler of a node's agent.
func handler(t testing.TB, n *node) http.Handler {
	t.Helper()
	return window.Guard(nil, web.NewNode(func() (*view.View, error) {
		if n.second++; n.next != nil {
			n.next()
		}
		return n.view(t), nil
	}, slog.New(slog.DiscardHandler)).With(n.past()).Handler())
}

// script runs a statement in the page.
func script(text string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[bool]("(() => { "+text+"; return true; })()")(ctx, target)
		return chromedp.Void{}, err
	}
}

// choose clicks the workload of a name, and waits until the page explains it.
func (p *tab) choose(name string) {
	p.t.Helper()
	text, err := json.Marshal(name)
	if err != nil {
		p.t.Fatal(err)
	}
	p.do(script(fmt.Sprintf(`[...document.querySelectorAll('#rows .name')].find((n) => n.textContent === %s).click()`, text)))
	p.until(fmt.Sprintf(`document.getElementById('detail-title').textContent === %s`, text))
}
