package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/test/patience"
)

// cluster is a cluster that a test changes while a page shows it.
type cluster struct {
	mu   sync.Mutex
	view view.Cluster
}

// mall returns a cluster with a node of each kind, and pods that wait for several reasons.
func mall() *cluster {
	return &cluster{view: view.Cluster{
		Format: view.Format, Server: "https://mall.example:6443", At: start,
		Nodes: []view.Node{
			{Name: "node-a", CPUs: 62, FreeCPUs: 40, L3: 8, FreeL3: 4, Fragmentation: 20, Pinned: 3, Pods: 31},
			{Name: "node-b", CPUs: 62, FreeCPUs: 12, L3: 8, FreeL3: 1, Fragmentation: 90, Pinned: 9, Pods: 40, Notes: []string{"cordoned"}},
			{Name: "node-c", CPUs: 30, FreeCPUs: 28, L3: 4, FreeL3: 4, Pods: 2, Obstacle: "not pinnable: KubeletCPUManager: the kubelet gives out CPUs itself"},
			{Name: "node-d", Pods: 5, Obstacle: "no NodeTopology: does Berth's agent run there?"},
		},
		Pending: []view.Pending{
			{Namespace: "shop", Pod: "db-0", CPUs: 64, Scheduler: "berth-scheduler", Since: start.Add(-3 * time.Hour), Why: "0/4 nodes are available: 4 Insufficient cpu.", Condition: "Unschedulable: 0/4 nodes are available"},
			{Namespace: "shop", Pod: "web-1", CPUs: 4, Scheduler: "berth-scheduler", Since: start, Why: "node-a would take it now", Node: "node-a"},
		},
		PendingTotal: 2, Problems: []string{"not known whether Berth's agents run: leases is forbidden"},
	}}
}

// change changes the cluster.
func (c *cluster) change(how func(*view.Cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how(&c.view)
}

// look returns the cluster a second later.
func (c *cluster) look() (*view.Cluster, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view.At = c.view.At.Add(time.Second)
	now := c.view
	now.Nodes, now.Pending = slices.Clone(now.Nodes), slices.Clone(now.Pending)
	return &now, nil
}

// serve shows the cluster, and a node at the page of each of its nodes.
func (c *cluster) serve(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(c.handler(t))
	t.Cleanup(func() { kill(server) })
	return server
}

// handler answers for the pages of the cluster and of its nodes.
func (c *cluster) handler(t *testing.T) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", web.NewCluster(c.look, slog.New(slog.DiscardHandler)).Handler())
	mux.HandleFunc("/nodes/{node}/", func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/nodes/"+r.PathValue("node"), handler(t, shop(t))).ServeHTTP(w, r)
	})
	return window.Guard(nil, mux)
}

const (
	nodeNames = `[...document.querySelectorAll('#node-rows .name')].map((n) => n.textContent).join()`
	podNames  = `[...document.querySelectorAll('#pod-rows th')].map((n) => n.textContent).join()`
)

// TestCluster checks the page of a cluster: nodes with the most room first, with the reason why a node pins no pod, and
// waiting pods with their reasons. The page must draw changes.
func TestCluster(t *testing.T) {
	c := mall()
	server := c.serve(t)
	p := look(t, server)
	if names, pods := eval[string](p, nodeNames), eval[string](p, podNames); names != "node-a,node-b,node-c,node-d" || pods != "shop/db-0,shop/web-1" {
		t.Errorf("nodes %s, pods %s", names, pods)
	}
	text := eval[string](p, `document.body.innerText`)
	for _, want := range []string{
		"40 of 62", "4 of 8", "cordoned", "not pinnable: KubeletCPUManager", "no NodeTopology", "0/4 nodes are available: 4 Insufficient cpu.", "Unschedulable: 0/4",
		"3h", "node-a would take it now", "not known whether Berth's agents run", "https://mall.example:6443", "Nodes (4)", "Pending pods (2)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	c.change(func(v *view.Cluster) {
		v.Nodes[0].FreeCPUs, v.Pending, v.PendingTotal, v.Problems = 36, v.Pending[:1], 1, []string{}
	})
	p.until(`document.body.innerText.includes('36 of 62') && !document.body.innerText.includes('web-1') && document.getElementById('notices').hidden`)
	p.clean(server)
	kill(server)
	p.until(`/^berth web (ended|does not answer), this is of .*Trying again\.$/.test(document.getElementById('state').textContent) && document.body.classList.contains('old')`)
}

// TestClusterKeyboard checks that the keyboard suffices to filter, sort, reach, open and leave nodes.
func TestClusterKeyboard(t *testing.T) {
	server := mall().serve(t)
	p := look(t, server)
	p.press("/")
	p.until(`document.activeElement.id === 'filter'`)
	p.press(kb.Backspace, "n", "o", "d", "e", "-", "b") // a real key that is suppressed leaves no character
	p.until(nodeNames + ` === 'node-b' && document.getElementById('nodes-title').textContent === 'Nodes (1 of 4)'`)
	p.press(kb.Escape)
	p.until(nodeNames + ` === 'node-a,node-b,node-c,node-d'`)
	p.do(script(`[...document.querySelectorAll('#node-columns button')].find((b) => b.textContent === 'Whole L3').focus()`))
	p.press(kb.Enter)
	p.until(nodeNames + ` === 'node-a,node-c,node-b,node-d' && document.querySelector('#node-columns [aria-sort=descending]').textContent === 'Whole L3'`)
	p.do(script(`document.querySelector('#node-rows .name').focus()`))
	p.press(kb.ArrowDown)
	p.until(focused + ` === 'node-c'`)
	p.press(kb.End, kb.ArrowUp)
	p.until(focused + ` === 'node-b'`)
	p.press(kb.Enter)
	p.arrive(`location.pathname === '/nodes/node-b/' && document.body.classList.contains('drawn') && document.title.startsWith('node-b · Berth') && document.querySelectorAll('.cpu').length > 0`)
	p.do(script(`document.querySelector('.up').focus()`))
	p.press(kb.Enter)
	p.arrive(`location.pathname === '/' && document.body.classList.contains('drawn')`)
	p.clean(server)
}

// arrive waits until an expression is true on the page that a link leads to. Between the pages there is no page to
// evaluate it.
func (p *tab) arrive(expression string) {
	p.t.Helper()
	err := patience.Until(p.ctx, 20*time.Millisecond, func() string {
		there, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && there {
			return ""
		}
		return fmt.Sprintf("%s: %v", expression, err)
	})
	if err != nil {
		p.t.Fatalf("%v; the page complains of %q", err, p.said)
	}
}

// TestClusterHostile checks that the page of a cluster shows texts of tenants, nodes and API servers as text, never as
// markup.
func TestClusterHostile(t *testing.T) {
	c := mall()
	c.change(func(v *view.Cluster) {
		for i, text := range []string{`<img src=x onerror="pwned=1">`, `"><script>pwned=1</script>`, `javascript:pwned=1`, "\u202eevil", `__proto__`, strings.Repeat("long", 500)} {
			v.Nodes = append(v.Nodes, view.Node{Name: text, Obstacle: text, Notes: []string{text}})
			v.Pending = append(v.Pending, view.Pending{Namespace: "shop", Pod: fmt.Sprint(i) + text, Scheduler: text, Why: text, Condition: text})
			v.Problems = append(v.Problems, text)
		}
		v.Server = `<b onclick="pwned=1">`
	})
	server := c.serve(t)
	p := look(t, server)
	p.until(`document.querySelectorAll('#node-rows tr').length === 10 && document.querySelectorAll('#pod-rows tr').length === 8`)
	if found := eval[[]string](p, `[...document.querySelectorAll('script:not([src="watch.js"]):not([src="cluster.js"]), img, iframe, b, [onclick], [onerror], [style*=url], a:not([href^="nodes/"]):not(.skip)')].map((e) => e.outerHTML)`); len(found) > 0 {
		t.Errorf("elements %q", found)
	}
	if away := eval[[]string](p, `[...document.querySelectorAll('a.name')].map((a) => a.href).filter((a) => !a.startsWith(location.origin + '/nodes/'))`); len(away) > 0 {
		t.Errorf("links %q", away)
	}
	if eval[bool](p, `'pwned' in window`) {
		t.Error("a text was run")
	}
	p.until(`document.documentElement.scrollWidth <= innerWidth`)
	p.clean(server)
}

// TestClusterOfThousands checks that the page of a cluster of thousands of nodes shows the first nodes, and the others
// by filter, order and button. The server must send only the nodes that change.
func TestClusterOfThousands(t *testing.T) {
	const nodes, waiting = 5000, 10_000
	c := mall()
	c.change(func(v *view.Cluster) {
		v.Nodes, v.Pending, v.PendingTotal, v.Problems = nil, nil, waiting, []string{}
		for i := range nodes {
			n := view.Node{Name: fmt.Sprintf("worker-%d", i), CPUs: 62, FreeCPUs: i % 60, L3: 8, FreeL3: i % 60 / 8, Fragmentation: i % 100, Pinned: i % 9, Pods: i % 40}
			if i%50 == 7 {
				n.Obstacle = "not pinnable: KubeletCPUManager"
			}
			v.Nodes = append(v.Nodes, n)
		}
		slices.SortFunc(v.Nodes, view.MoreRoom)
		for i := range view.MostPending {
			v.Pending = append(v.Pending, view.Pending{Namespace: "shop", Pod: fmt.Sprintf("web-%d", i), Scheduler: "berth-scheduler", Since: start, Why: "0/5000 nodes are available"})
		}
	})
	count := &counting{Handler: c.handler(t)}
	server := httptest.NewServer(count)
	t.Cleanup(func() { kill(server) })
	p := look(t, server)
	const rows = `document.querySelectorAll('#node-rows tr').length`
	title := fmt.Sprintf(`document.getElementById('nodes-title').textContent === 'Nodes (%d)' && document.getElementById('pending-title').textContent === 'Pending pods (%d of %d)'`, nodes, view.MostPending, waiting)
	p.until(title + ` && ` + rows + ` === 100 && document.querySelector('#nodes table').ariaRowCount === '5001'`)
	painted := eval[float64](p, `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0`)
	first := count.bytes.Load()

	p.do(script(`document.getElementById('more-nodes').focus()`))
	p.press(kb.Enter)
	p.until(rows + ` === 200 && document.activeElement.closest('tr').ariaRowIndex === '102'`)
	p.press("/")
	p.until(`document.activeElement.id === 'filter'`)
	p.press(kb.Backspace, "w", "o", "r", "k", "e", "r", "-", "4", "3", "2", "1") // as in TestClusterKeyboard
	p.until(nodeNames + ` === 'worker-4321' && document.getElementById('more-nodes').parentElement.hidden`)
	p.press(kb.Escape)
	p.do(script(`[...document.querySelectorAll('#node-columns button')].find((b) => b.textContent === 'Node').click()`))
	p.until(nodeNames + `.startsWith('worker-0,worker-1,worker-2,worker-3,')`)
	if elements := eval[int](p, `document.querySelectorAll('*').length`); elements > 8000 {
		t.Errorf("the page has %d elements", elements)
	}

	// Twenty nodes change every second. A node with the focus stays in the table, whatever its position.
	p.do(script(`[...document.querySelectorAll('#node-columns button')].find((b) => b.textContent === 'Free CPUs').click()`))
	p.until(nodeNames + `.startsWith('worker-1019,')`)
	p.do(script(`document.querySelector('#node-rows .name').focus()`))
	count.bytes.Store(0)
	for turn := range 5 {
		c.change(func(v *view.Cluster) {
			for i := range v.Nodes {
				if at := strings.TrimPrefix(v.Nodes[i].Name, "worker-"); at == "1019" || i%250 == 11 {
					v.Nodes[i].FreeCPUs, v.Nodes[i].Pinned = turn%2, 40+turn
				}
			}
			slices.SortFunc(v.Nodes, view.MoreRoom)
		})
		p.until(fmt.Sprintf(`document.activeElement.textContent === 'worker-1019' && document.activeElement.closest('tr').children[4].textContent === '%d'`, 40+turn))
	}
	if sent := count.bytes.Load(); sent > first/4 {
		t.Errorf("five times 21 of %d nodes took %d bytes, all of them %d", nodes, sent, first)
	}
	p.clean(server)
	t.Logf("%d nodes: first paint after %.0f ms, %d kB for all, %d for five times 21 of them", nodes, painted, first/1000, count.bytes.Load()/1000)
}

// counting counts the bytes that a server sends.
type counting struct {
	http.Handler

	bytes atomic.Int64
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.Handler.ServeHTTP(&counted{w, c}, r)
}

type counted struct {
	http.ResponseWriter

	by *counting
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.by.bytes.Add(int64(n))
	return n, err
}

// Unwrap lets the server flush each line.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// TestClusterPictures checks that the page of a cluster is readable in light and dark, fits its screen, and has names
// for a screen reader. Its pictures are artifacts.
func TestClusterPictures(t *testing.T) {
	c := mall()
	c.change(func(v *view.Cluster) {
		for i := range 20 {
			v.Nodes = append(v.Nodes, view.Node{Name: fmt.Sprintf("worker-%d", i), CPUs: 30, FreeCPUs: i, L3: 4, FreeL3: i / 8, Fragmentation: 100 - i, Pods: 3})
		}
	})
	server := c.serve(t)
	p := look(t, server)
	for _, shot := range shots {
		p.like(shot.scheme, shot.width, shot.height)
		p.until(fmt.Sprintf(`matchMedia('(prefers-color-scheme: %s)').matches && document.documentElement.scrollWidth <= innerWidth`, shot.scheme))
		if bad := eval[[]string](p, contrasts); len(bad) > 0 {
			t.Errorf("%s: %q", shot.scheme, bad)
		}
		takePicture(t, p, "cluster-"+shot.screen+"-"+shot.scheme)
	}
	tree, err := chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		name := ""
		if n.Name != nil {
			name = text(n.Name)
		}
		if role := text(n.Role); name == "" && slices.Contains([]string{"button", "link", "searchbox", "columnheader", "rowheader", "region"}, role) {
			t.Errorf("a %s without a name", role)
		}
		said[text(n.Role)] = append(said[text(n.Role)], name)
	}
	for role, want := range map[string]string{
		"link": "node-a", "heading": "Pending pods (2)", "searchbox": "Filter", "rowheader": "shop/db-0", "columnheader": "Pinnable", "region": "Problems", "status": "",
	} {
		if !slices.Contains(said[role], want) {
			t.Errorf("no %s named %q: %q", role, want, said[role])
		}
	}
	p.clean(server)
}
