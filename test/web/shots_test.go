package web

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
)

// shop returns a node of two sockets with workloads of each kind.
func shop(t testing.TB) *node {
	return &node{
		machine: recorded(t, "two-socket-ht"), pinned: append(names("shop/web", 3), "shop/db-0/postgres"),
		throttled: append(names("batch/reports", 4), names("infra/logs", 3)...), reports: reports(),
	}
}

// reports returns reports about the node and about some workloads, like those of real capabilities.
func reports() []view.Said {
	type table = map[string]any
	var containers []table
	var rows []capability.Row
	for i, name := range names("batch/reports", 4) {
		containers = append(containers, table{"pod": name, "container": "app", "cpus": "9-16,25-31", "pinned": false, "why": "it shares the pool"})
		rows = append(rows, capability.Row{Workload: capability.Workload{Name: name}, Section: table{
			"localNodes": "0", "ratio": 90 - i, "bytesByNode": map[int]int64{0: 3 << 30, 1: 1 << 29}, "phase": "idle",
		}})
	}
	return []view.Said{{Name: "memory", Outcome: capability.Outcome{Rows: rows, Node: capability.Sections{
		"node": table{"useRatio": 0.31, "threshold": 0.5, "poolCPUs": 15, "latenessSeconds": 0.0021},
		"cpus": table{"exclusive": "1-8,17-24", "offline": "", "fragmentationPercent": 12, "containers": containers},
	}}}}
}

// shots are the screens of the pictures.
var shots = []struct {
	screen, scheme string
	width, height  int64
}{{"phone", "dark", 390, 844}, {"phone", "light", 390, 844}, {"desk", "light", 1440, 1000}, {"desk", "dark", 1440, 1000}}

// TestPictures takes the pictures of the page that `go test -artifacts` keeps: light and dark, on a desktop and on a
// phone, of a node and of one with 512 CPUs. It fails for a page that is wider than its screen, and for a picture of
// one color.
func TestPictures(t *testing.T) {
	for name, n := range map[string]*node{"node": shop(t), "large": {machine: large(), pinned: names("shop/web", 60), throttled: names("batch/job", 440)}} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, n)
			p := look(t, server)
			p.do(chromedp.Click(chromedp.CSS(`[data-holder="` + n.pinned[1] + `"]`)))
			p.until(`document.querySelectorAll('#detail dt').length > 3 && document.querySelector('.chosen')`)
			for _, shot := range shots {
				p.like(shot.scheme, shot.width, shot.height)
				p.until(`document.documentElement.scrollWidth <= innerWidth`)
				takePicture(t, p, name+"-"+shot.screen+"-"+shot.scheme)
				if n.machine.Online.Size() > 100 {
					break // large pictures take long
				}
			}
			if n.reports != nil {
				p.choose("batch/reports-1/app")
				p.until(`document.querySelector('#detail .report')`)
				takePicture(t, p, name+"-reports")
			}
			p.clean(server)
		})
	}
}

// takePicture writes a picture of a whole page.
func takePicture(t *testing.T, p *tab, name string) {
	t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := colours(t, text); n < 10 {
		t.Errorf("%s has %d colours", name, n)
	}
}

// colours returns how many colours a PNG image has, in a grid of its pixels.
func colours(t *testing.T, text []byte) int {
	t.Helper()
	image, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[any]bool{}
	for x := image.Bounds().Min.X; x < image.Bounds().Max.X; x += 7 {
		for y := image.Bounds().Min.Y; y < image.Bounds().Max.Y; y += 7 {
			seen[image.At(x, y)] = true
		}
	}
	return len(seen)
}
