package web

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"image"
	"image/draw"
	"image/png"
	"log/slog"
	"net"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/berth-project/berth/internal/agent/web"
)

const (
	// pictureFile is the picture of docs/web.md, which TestReplay writes if update is set.
	pictureFile = "../../docs/pictures/page.png"
	// The picture is wide enough for the names of the workloads, and high enough for all workloads.
	pictureWidth, pictureHeight = 1440, 1160
)

var update = flag.Bool("update", false, "write "+pictureFile)

// TestReplay checks that keys play a recording, stop it, and go to any of its moments. It can write the picture of the
// pages, which shows a recording, so that it needs no host.
func TestReplay(t *testing.T) {
	n := shop(t)
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	before := n.view(t)
	if err := encoder.Encode(before); err != nil {
		t.Fatal(err)
	}
	for n.second = 1; n.second < 20; n.second++ {
		now := n.view(t)
		if err := encoder.Encode(now.Since(before)); err != nil {
			t.Fatal(err)
		}
		before = now
	}
	recording, err := web.ReadRecording(&lines)
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
	p := blank(t)
	p.open("http://"+l.Addr().String(), `document.body.classList.contains('drawn') && document.getElementById('state').textContent === 'Recording'`)
	p.until(`Number(document.getElementById('seek').value) > 0`)
	p.do(script(`document.getElementById('play').click()`), script(`document.getElementById('seek').focus()`))
	p.press(kb.End)
	p.until(`document.getElementById('moment').value.endsWith(', 20 of 20')`)
	p.press(kb.Home, kb.ArrowRight)
	p.until(`document.getElementById('moment').value.endsWith(', 2 of 20') && document.getElementById('play').textContent === 'Play'`)
	p.do(script(`document.getElementById('speed').value = '60'; document.getElementById('speed').dispatchEvent(new Event('change')); document.getElementById('play').click()`))
	p.until(`document.getElementById('moment').value.endsWith(', 20 of 20') && document.getElementById('play').textContent === 'Play'`)
	p.choose("batch/reports-1/app")
	takePicture(t, p, "replay")
	if *update {
		writePicture(t, p)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// writePicture writes the top of the page. The browser shows the whole page, so that the player at the bottom of the
// screen covers none of it.
func writePicture(t *testing.T, p *tab) {
	t.Helper()
	p.like("light", pictureWidth, 900)
	p.like("light", pictureWidth, int64(eval[float64](p, `document.documentElement.scrollHeight`)))
	p.until(`(scrollTo(0, 0), scrollY === 0)`)
	text, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	top := image.NewRGBA(image.Rect(0, 0, pictureWidth, pictureHeight))
	draw.Draw(top, top.Bounds(), whole, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := png.Encode(&out, top); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pictureFile, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPictureOfThePages checks that the picture of the pages is one of a page. Its pixels depend on the browser, so they
// are not compared.
func TestPictureOfThePages(t *testing.T) {
	text, err := os.ReadFile(pictureFile)
	if err != nil {
		t.Fatalf("%v; go test -run TestReplay -update . writes it", err)
	}
	drawn, err := png.DecodeConfig(bytes.NewReader(text))
	if err != nil || drawn.Width != pictureWidth || drawn.Height != pictureHeight {
		t.Errorf("%+v, %v", drawn, err)
	}
	if n := colours(t, text); n < 10 {
		t.Errorf("it has %d colours", n)
	}
	if len(text) > 300_000 {
		t.Errorf("it has %d bytes", len(text))
	}
}
