package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	// law begins the message of a test that saw damage: two pods with the same CPU, or a value that nobody restored. It
	// counts even if the test passes in a second run.
	law = "broken law: "
	// mostUnsteady is how many tests may pass only in their second run.
	mostUnsteady = 3
	// mostLines bounds the list of failures, which people read at the end of a long output.
	mostLines = 36
)

// line is a stage in the table.
type line struct {
	name      string
	wall, cpu time.Duration
	code      int // Of its command.
}

// note appends the line to the table in the directory.
func (l line) note(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, "table"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s %d %d %d\n", l.name, l.wall, l.cpu, l.code)
	return errors.Join(err, file.Close())
}

func table(dir string) (lines []line, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "table"))
	if err != nil {
		return nil, fmt.Errorf("no stage has run: %w", err)
	}
	for text := range strings.Lines(string(text)) {
		var l line
		if _, err := fmt.Sscan(text, &l.name, (*int64)(&l.wall), (*int64)(&l.cpu), &l.code); err != nil {
			return nil, fmt.Errorf("%s/table: %q: %w", dir, text, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// report prints the table, then each unsteady test, then each failed test with its first error.
func report(dir string, out io.Writer) error {
	lines, err := table(dir)
	if err != nil {
		return err
	}
	unsteady, err := unsteady(filepath.Join(dir, "again"))
	if err != nil {
		return err
	}
	var red, why []string
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "stage\ttime\tCPU\t\t")
	for _, l := range lines {
		text, err := os.ReadFile(filepath.Join(dir, l.name+".log"))
		if err != nil {
			return err
		}
		result := "ok"
		wrong := broken(string(text))
		if l.code != 0 {
			wrong = append(wrong, failures(string(text))...)
		}
		if len(wrong) > 0 || l.code != 0 {
			result = "red"
			red = append(red, l.name)
		}
		for _, one := range wrong {
			why = append(why, l.name+": "+one)
		}
		fmt.Fprintf(columns, "%s\t%v\t%v\t%s\t\n", l.name, l.wall.Round(time.Second), l.cpu.Round(time.Second), result)
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	for _, one := range unsteady {
		fmt.Fprintln(out, "unsteady:", one)
	}
	for i, one := range why {
		if i == mostLines {
			fmt.Fprintf(out, "and %d more, in %s\n", len(why)-i, dir)
			break
		}
		fmt.Fprintln(out, one)
	}
	switch {
	case len(red) > 0:
		return fmt.Errorf("%w: %s", errRed, strings.Join(red, ", "))
	case len(unsteady) > mostUnsteady:
		return fmt.Errorf("%w: %d tests passed in their second run only, and %d are too many", errRed, len(unsteady), mostUnsteady+1)
	}
	return nil
}

// unsteady lists the tests that passed in their second run, from the records of tools/suite.sh.
func unsteady(dir string) (tests []string, err error) {
	reports, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	for _, name := range reports {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for text := range strings.Lines(string(text)) {
			test, count, _ := strings.Cut(strings.TrimSpace(text), ": ")
			var runs, failed int
			if _, err := fmt.Sscanf(count, "%d runs, %d failures", &runs, &failed); err == nil && failed < runs {
				tests = append(tests, test)
			}
		}
	}
	return whole(tests), nil
}

// whole names each top-level test, the unit of a second run, only once, by its first subtest without subtests. A
// failing subtest also fails every test that contains it.
func whole(tests []string) []string {
	slices.Sort(tests)
	parts := map[string][]string{}
	for i, test := range tests {
		if i+1 == len(tests) || !strings.HasPrefix(tests[i+1], test+"/") {
			room, name, _ := strings.Cut(test, ".Test")
			top, _, _ := strings.Cut(name, "/")
			parts[room+"."+top] = append(parts[room+"."+top], test)
		}
	}
	var all []string
	for _, top := range slices.Sorted(maps.Keys(parts)) {
		text := parts[top][0]
		if more := len(parts[top]) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more of its parts", more)
		}
		all = append(all, text)
	}
	return all
}

// broken lists the laws that were broken, each once.
func broken(text string) []string {
	var all []string
	for text := range strings.Lines(text) {
		if at := strings.Index(text, law); at >= 0 {
			all = append(all, short(text[at:]))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// failure is a failed test with its first message.
type failure struct{ test, said string }

// failures lists the failed tests, by name, as the go command and gotestsum print them. For a stage without failed
// tests it returns the findings of the compiler and the linter, or else the end of the output.
func failures(text string) []string {
	head := regexp.MustCompile(`^\s*(?:--- FAIL: |=== FAIL: \S+ )(\S+)`)
	where := regexp.MustCompile(`^\s*\S+\.go:\d+: |^panic: `)
	var all []failure
	lines := strings.Split(text, "\n")
	for i, text := range lines {
		match := head.FindStringSubmatch(text)
		if match == nil {
			continue
		}
		f := failure{test: match[1]}
		for _, next := range lines[i+1:] {
			if head.MatchString(next) {
				break
			}
			if where.MatchString(next) {
				f.said = short(next)
				break
			}
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b failure) int {
		return cmp.Or(cmp.Compare(a.test, b.test), cmp.Compare(b.said, a.said))
	})
	all = slices.CompactFunc(all, func(a, b failure) bool { return a.test == b.test })
	var said []string
	for i, f := range all {
		if i+1 < len(all) && strings.HasPrefix(all[i+1].test, f.test+"/") {
			continue // A subtest follows, and says more.
		}
		said = append(said, f.test+": "+f.said)
	}
	if len(said) == 0 {
		said = found(lines)
	}
	if len(said) == 0 {
		said = ending(lines)
	}
	return said
}

// found returns the lines that name a position in a Go file, as the compiler and the linter print them.
func found(lines []string) []string {
	place := regexp.MustCompile(`^\S+\.go:\d+:\d+: `)
	var all []string
	for _, text := range lines {
		if place.MatchString(text) {
			all = append(all, short(text))
		}
	}
	return all
}

// ending returns the last few lines that are not empty.
func ending(lines []string) []string {
	lines = slices.DeleteFunc(slices.Clone(lines), func(text string) bool { return strings.TrimSpace(text) == "" })
	lines = lines[max(0, len(lines)-5):]
	for i, text := range lines {
		lines[i] = short(text)
	}
	return lines
}

// short shortens a line for readers.
func short(text string) string {
	const most = 240
	text = strings.TrimSpace(text)
	if len(text) > most {
		return text[:most] + " …"
	}
	return text
}
