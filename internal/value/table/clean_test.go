package table_test

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/table"
)

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"shop/web-0, 50 % of the Zürich": "shop/web-0, 50 % of the Zürich",
		"a\x1b[2Jb\u009b1m\u202ec\x7f":   "a?[2Jb?1m?c?",
		"one\ntwo\r\n\tthree\n":          "one; two?;  three",
		"\x9b2J\xff":                     "\ufffd2J\ufffd",
		"50\u00a0% l\u202fà\u3000東京":     "50 % l à 東京",
	} {
		if got := table.Clean(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got, want := table.CleanLines("one\n\ttwo\r\x1b\u2066\u00a0\n"), "one\n\ttwo??? \n"; got != want {
		t.Errorf("lines are %q, want %q", got, want)
	}
}

// TestPageIsClean: whatever cells and lines hold, a page has as many lines as rows and lines, and a terminal obeys none
// of its characters.
func TestPageIsClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringN(0, 8, -1), rapid.SampledFrom([]string{"\n", "\x1b[2J", "\u202e", "\r", "\u009b", "\t"}))
		rows := rapid.SliceOfN(rapid.SliceOfN(text, 2, 2), 1, 3).Draw(t, "rows")
		var page table.Page
		if err := table.Write(&page, rows); err != nil {
			t.Fatal(err)
		}
		page.Line("%s: %s", text.Draw(t, "line"), text.Draw(t, "line"))
		if got, want := strings.Count(page.String(), "\n"), len(rows)+1; got != want {
			t.Fatalf("%d lines, want %d: %q", got, want, page.String())
		}
		if strings.ContainsFunc(strings.ReplaceAll(page.String(), "\n", ""), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("not clean: %q", page.String())
		}
	})
}
