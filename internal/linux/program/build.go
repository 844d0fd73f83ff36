package program

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"go/version"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// maxProgram is how many bytes of a program are read, over all reads. Go's build information is at the beginning of a
// program's data, or close to it.
const maxProgram = 32 << 20

// followsSince is the first version of Go whose GOMAXPROCS follows the quota.
const followsSince = "go1.25"

// atStart is the module with which programs of earlier versions set GOMAXPROCS at their start: from then on Go leaves
// it alone.
const atStart = "go.uber.org/automaxprocs"

// build is how a program was built. The zero value is a program that Go did not build.
type build struct {
	version string
	follows bool
	err     error
}

// buildOf reads how a program was built. The program belongs to another user.
func buildOf(file io.ReaderAt) build {
	info, err := read(newSegments(file))
	switch {
	case errors.Is(err, errLarge), errors.Is(err, errParser), isIO(err):
		return build{err: err}
	case err != nil: // no Go program, or no program at all
		return build{}
	}
	return build{version: strings.Map(printed, info.GoVersion), follows: follows(info)}
}

// isIO reports whether the file could not be read, independent of its content.
func isIO(err error) bool {
	_, is := errors.AsType[*os.PathError](err)
	return is
}

var errParser = errors.New("the program cannot be read")

// read is buildinfo.Read without its panics. The packages with which buildinfo reads programs promise nothing for
// malicious files.
func read(file *segments) (info *buildinfo.BuildInfo, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			info, err = nil, fmt.Errorf("%w: %v", errParser, broken)
		}
	}()
	info, err = buildinfo.Read(file)
	if err != nil && file.err != nil {
		err = file.err // buildinfo has one error for everything that it cannot read
	}
	return info, err
}

// follows reports whether GOMAXPROCS follows the quota in a program that does not set it.
func follows(info *buildinfo.BuildInfo) bool {
	// The version of a toolchain may have a suffix, as in "go1.25.1 X:nocoverageredesign".
	if is, _, _ := strings.Cut(info.GoVersion, " "); version.Compare(is, followsSince) < 0 && !strings.HasPrefix(is, "devel") {
		return false
	}
	for _, s := range info.Settings {
		if s.Key != "DefaultGODEBUG" {
			continue
		}
		for choice := range strings.SplitSeq(s.Value, ",") {
			if choice == "updatemaxprocs=0" || choice == "containermaxprocs=0" {
				return false
			}
		}
	}
	return !slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Path == atStart })
}

// segments is a program as the kernel loads it, without its sections, and with a bound on how much is read. A section
// may be compressed, and its uncompressed size has no bound.
type segments struct {
	file io.ReaderAt
	left int
	// hidden are the parts of the ELF header that read as zero.
	hidden [2][2]int64
	err    error
}

// sections returns where an ELF header has the position and the number of sections (elf(5): e_shoff, and e_shnum with
// e_shstrndx). class is 1 for 32 bit, 2 for 64 bit. A program with zeros there has no sections.
func sections(class byte) [2][2]int64 {
	if class == 1 {
		return [2][2]int64{{0x20, 0x24}, {0x30, 0x34}}
	}
	return [2][2]int64{{0x28, 0x30}, {0x3c, 0x40}}
}

func newSegments(file io.ReaderAt) *segments {
	s := &segments{file: file, left: maxProgram}
	var class [1]byte
	if _, err := s.ReadAt(class[:], 4); err == nil {
		s.hidden = sections(class[0])
	}
	return s
}

// ReadAt implements io.ReaderAt.
func (s *segments) ReadAt(to []byte, at int64) (int, error) {
	if len(to) > s.left {
		s.err = errLarge
		return 0, errLarge
	}
	n, err := s.file.ReadAt(to, at)
	s.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	for _, span := range s.hidden {
		for i := max(span[0], at); i < min(span[1], at+int64(n)); i++ {
			to[i-at] = 0
		}
	}
	return n, err //nolint:wrapcheck // io.EOF has to stay itself
}

// printed replaces a character that may move a cursor with a question mark: processes choose their names.
func printed(r rune) rune {
	if !unicode.IsPrint(r) {
		return '?'
	}
	return r
}
