package table_test

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/table"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

func TestWrite(t *testing.T) {
	pod := "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9.slice/cpu.max"
	for _, test := range []struct {
		name string
		rows [][]string
		want string
	}{
		{"nothing", nil, ""},
		{"narrow", [][]string{{"NODE", "CPUS"}, {"a", "0-3"}, {"node-b", ""}}, "NODE    CPUS\na       0-3\nnode-b\n"},
		{
			"a cell that Wrap leaves whole",
			[][]string{{"-  -", strings.Repeat("x", 60), strings.Repeat("y", 53)}},
			"-  -  " + strings.Repeat("x", 59) + "  " + strings.Repeat("y", 53) + "\n" + strings.Repeat(" ", 6) + "  x\n",
		},
		{"ragged", [][]string{{"A"}, {"b", "c", "d"}}, "A\nb  c  d\n"},
		{
			"a long path and a long reason",
			[][]string{{"FILE", "STATE", "WHY"}, {pod, "applied", "credit 12.0 CPU-s: the quota stands above the limit, and the guard shares out from 50 %"}},
			`FILE                                                                 STATE    WHY
/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/              applied  credit 12.0 CPU-s: the quota stands above
  kubepods-burstable-pod0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9.slice/             the limit, and the guard shares out from
  cpu.max                                                                       50 %
`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b strings.Builder
			if err := table.Write(&b, test.rows); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWriteFits: whatever the cells hold, a line is never too long, and the
// text of a column is all there.
func TestWriteFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "columns")
		cell := rapid.StringMatching(`([a-zé0-9.:-]{1,90}[ ,/]{0,2}){0,6}`)
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, n, n), 1, 4).Draw(t, "rows")
		var b strings.Builder
		if err := table.Write(&b, rows); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if got := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); got > table.Width {
				t.Fatalf("%d columns: %s", got, line)
			}
		}
		if n == 1 {
			if got, want := squeezed(b.String()), squeezed(strings.Join(columnsOf(rows), "")); got != want {
				t.Fatalf("text is lost: got %q, want %q", got, want)
			}
		}
	})
}

// TestWrapKeepsTheRootOfAPath: a line does not end with the slash that begins a path.
func TestWrapKeepsTheRootOfAPath(t *testing.T) {
	for _, path := range []string{"/sys/kernel", "(/sys/kernel"} {
		got := table.Wrap("it is at "+path, len("it is at (/"))
		if want := []string{"it is at", "  " + path[:len(path)-len("kernel")], "  kernel"}; !cmp.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWrapLosesNothing: the lines of a text are the text.
func TestWrapLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-zé0-9]{1,40}[ ,/]{0,3}){0,8}`).Draw(t, "text")
		width := rapid.IntRange(4, 60).Draw(t, "width")
		lines := table.Wrap(text, width)
		for i, line := range lines {
			if utf8.RuneCountInString(line) > width || i > 0 && !strings.HasPrefix(line, "  ") {
				t.Fatalf("width %d, line %d: %q", width, i, line)
			}
		}
		if got := squeezed(strings.Join(lines, "")); got != squeezed(text) {
			t.Fatalf("got %q, want %q", got, text)
		}
	})
}

func columnsOf(rows [][]string) []string {
	var all []string
	for _, row := range rows {
		all = append(all, row...)
	}
	return all
}

// squeezed is a text without its blanks and line ends.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }

// screen is a writer of some width.
type screen struct {
	strings.Builder

	columns int
}

func (s *screen) Columns() int { return s.columns }

// A table follows the width of its screen, also by way of a page; a file and a screen of unknown
// width count as 120 columns, and less than 80 as 80.
func TestTableFollowsItsScreen(t *testing.T) {
	rows := [][]string{{"A", strings.Repeat("word ", 60)}}
	widest := func(w io.Writer, text func() string) int {
		if err := table.Write(w, rows); err != nil {
			t.Fatal(err)
		}
		most := 0
		for line := range strings.Lines(text()) {
			most = max(most, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		return most
	}
	var file strings.Builder
	if got := widest(&file, file.String); got <= 110 || got > 120 {
		t.Errorf("a file: %d columns", got)
	}
	for columns, want := range map[int]int{0: 120, 40: 80, 100: 100, 200: 200} {
		s := &screen{columns: columns}
		page := table.PageFor(s)
		for what, got := range map[string]int{"screen": widest(s, s.String), "page": widest(page, page.String)} {
			if got <= want-10 || got > want {
				t.Errorf("a %s of %d columns: %d are taken, want %d", what, columns, got, want)
			}
		}
	}
}
