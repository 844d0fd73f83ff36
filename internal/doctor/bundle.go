package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// The directories of the two samples in a bundle.
const (
	beforeDir = "before"
	nowDir    = "now"
)

// Bundle returns both samples as one text, which topology.ParseRecording reads. The text has no command line,
// environment or host name.
func Bundle(before, now *Sample) []byte {
	var b strings.Builder
	b.WriteString("One host at two moments, as berth doctor reads it: berth doctor --root THIS_FILE\n\n")
	before.record(&b, beforeDir)
	now.record(&b, nowDir)
	return []byte(b.String())
}

func (s *Sample) record(b *strings.Builder, dir string) {
	anonymous := s.anonymous()
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		text := strings.TrimRight(s.files[name], "\x00")
		_, _, isThread := threadOf(name)
		if isThread {
			text = anonymous(text)
		} else if strings.HasPrefix(name, "sys/fs/cgroup/") {
			name = anonymous(name)
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		_, _ = fmt.Fprintf(b, "-- %s/%s --\n%s", dir, name, text) // a strings.Builder never fails
	}
}

// anonymous returns a function that replaces the host's name, whole or up to its first dot: programs name threads after
// it, and people name control groups after it.
func (s *Sample) anonymous() func(string) string {
	short, _, _ := strings.Cut(s.host, ".")
	if short == "" {
		return func(text string) string { return text }
	}
	names := regexp.MustCompile(`\b(` + regexp.QuoteMeta(s.host) + `|` + regexp.QuoteMeta(short) + `)\b`)
	return func(text string) string { return names.ReplaceAllString(text, "HOST") }
}

// Open reads a recorded tree: the two samples of an unpacked bundle, or one sample, with before nil.
func Open(root *hostfs.Root) (before, now *Sample, err error) {
	dir, err := root.Dir(beforeDir)
	if errors.Is(err, fs.ErrNotExist) {
		now, err = Take(root, nil, nil)
		return nil, now, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("bundle: %w", err)
	}
	_ = dir.Close() // nothing was written
	if before, err = takeBelow(root, beforeDir); err != nil {
		return nil, nil, err
	}
	now, err = takeBelow(root, nowDir)
	return before, now, err
}

func takeBelow(root *hostfs.Root, dir string) (*Sample, error) {
	sub, err := hostfs.Open(root.Join(dir))
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	defer func() { _ = sub.Close() }() // nothing was written
	s, err := Take(sub, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("bundle, %s: %w", dir, err)
	}
	return s, nil
}
