package picture_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/cli/picture"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/test/recorded"
)

var update = flag.Bool("update", false, "write the golden files")

// held marks the first cores of a machine as those of two pods, and the next as each other kind.
func held(t *topology.Topology, names ...string) picture.Picture {
	rest := []picture.Kind{picture.Empty, picture.Taken, picture.Off, picture.Chosen, picture.Efficiency, picture.Isolated}
	return picture.Picture{Name: "node-a", Machine: t, Holders: names, Mark: func(cpu int) picture.Mark {
		for i, core := range t.Cores {
			switch {
			case !core.CPUs.Contains(cpu):
			case i < len(names):
				return picture.Mark{Kind: picture.Held, Holder: i}
			case i < len(names)+len(rest):
				return picture.Mark{Kind: rest[i-len(names)]}
			}
		}
		return picture.Mark{Kind: picture.Free}
	}}
}

// TestSVG compares the drawing of a recorded machine with the golden file.
func TestSVG(t *testing.T) {
	machines := recorded.Machines(t)
	for _, name := range []string{"two-socket-ht", "ccx-nps4", "hybrid-pe"} {
		got := picture.SVG(name, []picture.Picture{held(machines[name], "shop/web-0", "shop/web-1")}, "a note")
		file := "testdata/" + name + ".golden.svg"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-update writes it; -golden +drawn):\n%s", file, diff)
		}
	}
}

// TestEachCPUIsDrawnOnce: on each machine, in the text and in the image, and the image is
// well-formed and no cell leaves the page.
func TestEachCPUIsDrawnOnce(t *testing.T) {
	for name, machine := range recorded.Machines(t) {
		drawn := held(machine, "one")
		text := drawn.Text("")
		if got, want := strings.Count(text, "a"), machine.Cores[0].CPUs.Size(); got != want {
			t.Errorf("%s: the text has %d letters of the first core, want %d:\n%s", name, got, want, text)
		}
		image := picture.SVG(name, []picture.Picture{drawn})
		cpus := regexp.MustCompile(`<g><title>CPU (\d+),`).FindAllStringSubmatch(image, -1)
		seen := map[string]bool{}
		for _, match := range cpus {
			seen[match[1]] = true
		}
		if len(cpus) != machine.Online.Size() || len(seen) != len(cpus) {
			t.Errorf("%s: %d cells of %d CPUs, the machine has %d", name, len(cpus), len(seen), machine.Online.Size())
		}
		inside(t, name, image)
	}
}

// inside reads the image as XML and compares each rectangle with the page.
func inside(t *testing.T, name, image string) {
	t.Helper()
	width, height := 0, 0
	d := xml.NewDecoder(strings.NewReader(image))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		at := map[string]int{}
		for _, a := range start.Attr {
			at[a.Name.Local], _ = strconv.Atoi(a.Value)
		}
		switch start.Name.Local {
		case "svg":
			width, height = at["width"], at["height"]
		case "rect":
			if at["x"]+at["width"] > width || at["y"]+at["height"] > height {
				t.Errorf("%s: %v leaves the page of %d x %d", name, start.Attr, width, height)
			}
		}
	}
}

// TestNamesAreOnlyText: a name with markup stays a text, and what XML cannot hold goes.
func TestNamesAreOnlyText(t *testing.T) {
	const name = `</title><script>alert(1)</script>"'&` + "\x00\x1b\xff\uffff"
	image := picture.SVG(name, []picture.Picture{held(recorded.Machines(t)["one-socket-6c"], name, strings.Repeat("long ", 100))}, name)
	if strings.Contains(image, "<script") {
		t.Error("a name became an element")
	}
	inside(t, "names", image)
}

// TestContrast: what is written on a cell can be read on its fill, on both backgrounds (WCAG AA,
// 4.5 to 1).
func TestContrast(t *testing.T) {
	image := ""
	for _, numbered := range []bool{false, true} {
		machine := recorded.Machines(t)["two-socket-ht"]
		drawn := held(machine, "1", "2", "3", "4", "5", "6", "7", "8")
		drawn.Numbered = numbered
		image += picture.SVG("", []picture.Picture{drawn})
	}
	light := regexp.MustCompile(`<rect class="k\d+"[^>]* fill="(#[0-9a-f]{6})"[^>]*/><text class="i\d+"[^>]* fill="(#[0-9a-f]{6})"`).FindAllStringSubmatch(image, -1)
	dark := regexp.MustCompile(`\.k\d+\{fill:(#[0-9a-f]{6});[^}]*\}\.i\d+\{fill:(#[0-9a-f]{6})\}`).FindAllStringSubmatch(image, -1)
	page := regexp.MustCompile(`\.p\{fill:(#[0-9a-f]{6})\}\.h,\.t\{fill:(#[0-9a-f]{6})\}`).FindAllStringSubmatch(image, -1)
	if len(light) == 0 || len(dark) == 0 || len(page) == 0 {
		t.Fatalf("found %d cells, %d rules of cells and %d of the page", len(light), len(dark), len(page))
	}
	for _, pair := range append(append(light, dark...), page...) {
		if ratio := contrast(pair[1], pair[2]); ratio < 4.5 {
			t.Errorf("%s on %s: %.1f to 1", pair[2], pair[1], ratio)
		}
	}
}

func contrast(a, b string) float64 {
	low, high := luminance(a), luminance(b)
	return (max(low, high) + 0.05) / (min(low, high) + 0.05)
}

// luminance is the relative luminance of a colour as WCAG defines it.
func luminance(colour string) float64 {
	n, _ := strconv.ParseUint(colour[1:], 16, 32)
	sum := 0.0
	for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
		c := float64(n>>(8*i)&0xff) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
