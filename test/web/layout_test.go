package web

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/cli/picture"
	"github.com/berth-project/berth/internal/linux/topology"
)

// readBoxes has the page's own script build each machine of a list of views, and returns the CPUs of its boxes: of each
// L3 domain in each NUMA node in each socket. One page builds them all, because it takes most of a second to open a page.
const readBoxes = `(async (views) => {
	const { Machine } = await import(new URL('machine.js', document.baseURI));
	const nothing = () => {};
	const machine = new Machine({}, nothing, nothing);
	const all = (box, kind) => [...box.querySelectorAll(kind)];
	const domain = (box) => all(box, '.cpu').map((c) => Number(c.dataset.cpu));
	const node = (box) => all(box, '.l3').map(domain);
	const socket = (box) => all(box, '.numa').map(node);
	return views.map((view) => {
		machine.build(view.machine);
		return all(machine.box, '.socket').map(socket);
	});
})`

// TestBoxesAreTheLayout checks that the page has the same boxes in the same order as the text, the image and the
// terminal, which all draw picture.Layout. The page alone has a box for each socket, so the test divides the layout by
// socket.
func TestBoxesAreTheLayout(t *testing.T) {
	all := machines(t)
	names := slices.Sorted(maps.Keys(all))
	var views []*view.View
	for _, name := range names {
		views = append(views, (&node{machine: all[name]}).view(t))
	}
	text, err := json.Marshal(views)
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, shop(t))
	p := look(t, server)
	built := eval[[][][][][]int](p, readBoxes+"("+string(text)+")", chromedp.EvalAwaitPromise)
	if len(built) != len(names) {
		t.Fatalf("the page built %d machines, want %d", len(built), len(names))
	}
	for i, name := range names {
		if want := bySocket(all[name]); !reflect.DeepEqual(built[i], want) {
			t.Errorf("%s: the page has the boxes\n%v, the layout has\n%v", name, built[i], want)
		}
	}
	p.clean(server)
}

// machines returns all recorded machines, and a machine that the kernel describes in part only.
func machines(t *testing.T) map[string]*topology.Topology {
	t.Helper()
	const end = ".golden.json"
	files, err := filepath.Glob("../../testdata/machines/*" + end)
	if err != nil || len(files) < 10 {
		t.Fatalf("machines: %q, %v", files, err)
	}
	all := map[string]*topology.Topology{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), end)
		all[name] = recorded(t, name)
	}
	partly := recorded(t, "two-socket-ht")
	partly.Cores[15].Socket, partly.Cores[1].Node, partly.Cores[6].L3 = topology.None, topology.None, topology.None
	all["described in part"] = partly
	return all
}

// bySocket returns the CPUs of a machine's layout, by socket, NUMA node and L3 domain. CPUs without a socket are last.
func bySocket(m *topology.Topology) [][][][]int {
	var ids []topology.SocketID
	for _, socket := range m.Sockets {
		ids = append(ids, socket.ID)
	}
	var sockets [][][][]int
	for _, id := range append(ids, topology.None) {
		var nodes [][][]int
		for _, block := range picture.Layout(m) {
			if domains := within(block, id); len(domains) > 0 {
				nodes = append(nodes, domains)
			}
		}
		if len(nodes) > 0 {
			sockets = append(sockets, nodes)
		}
	}
	return sockets
}

// within returns the CPUs of a block that are in a socket, by L3 domain.
func within(block picture.Block, socket topology.SocketID) [][]int {
	var domains [][]int
	for _, domain := range block.Domains {
		var cpus []int
		for _, core := range domain.Cores {
			if core.Socket == socket {
				cpus = slices.AppendSeq(cpus, core.CPUs.All())
			}
		}
		if len(cpus) > 0 {
			domains = append(domains, cpus)
		}
	}
	return domains
}
