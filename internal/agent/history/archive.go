package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Names of the files of an archive: the time of the first sample, in Unix milliseconds, and an ending. A damaged file
// has damaged after the ending, and the copy of its valid part has draft until it takes the place of the file.
const (
	ending  = ".history"
	damaged = ".damaged"
	draft   = ".draft"
)

// fileHead begins each file. Its number is the version of the format and of the measures.
const fileHead = "berth history 1\n"

const (
	// fileSpan is the maximum time between the first and the last sample of a file. A full archive has at least
	// mostFiles files: the oldest is removed as a whole.
	fileSpan  = time.Hour
	mostFiles = 16
)

// Limits bound an archive.
type Limits struct {
	// Retention is the maximum age of a file, Bytes the maximum size of all files together.
	Retention time.Duration
	Bytes     int64
}

// archive has minutes on disk, in files to which blocks are appended. It is safe for concurrent use.
type archive struct {
	dir    string
	limits Limits
	log    *slog.Logger

	mu sync.Mutex
	// files are sorted, the oldest first; out is the last file while it is open for writing.
	files []file
	out   *os.File
	// failed is the error that keeps the last minute off the disk, nil if it is on disk.
	failed error
}

// file is a file of an archive.
type file struct {
	name string
	size int64
	// rest are the bytes at the end that are damaged: the file could not be set aside. They are not read, and belong to
	// size.
	rest int64
	// first and last are times of samples. A file that was set aside, and a draft that stays, have no first.
	first, last int64
}

// openArchive reads the existing files. It sets damaged files aside, and cuts off an unfinished block.
func openArchive(dir string, limits Limits, log *slog.Logger) (*archive, error) {
	a := &archive{dir: dir, limits: limits, log: log}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // removed in the meantime, or not a history file
		}
		f := file{name: e.Name(), size: info.Size(), last: info.ModTime().UnixMilli()} // no first: it is not read yet
		switch {
		case strings.HasSuffix(f.name, ending+damaged):
			a.files = append(a.files, f)
		case strings.HasSuffix(f.name, ending):
			a.files = append(a.files, a.check(f)...)
		case strings.HasSuffix(f.name, ending+draft):
			a.files = append(a.files, a.finish(f)...)
		}
	}
	return a, nil
}

// check reads a file, mends it if it is damaged, and returns the files that result. A file that cannot be read stays as
// it is: a disk that fails for a moment is no damage.
func (a *archive) check(f file) []file {
	seen, err := a.survey(f)
	switch {
	case err == nil:
		return []file{seen}
	case errors.Is(err, fs.ErrNotExist): // removed in the meantime
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, ErrDamaged):
		return a.mend(seen, err)
	}
	a.log.Warn("history: a file cannot be read", "file", filepath.Join(a.dir, f.name), "error", err)
	return []file{f}
}

// survey reads a file, and returns it with the times of its samples. A file without a valid block keeps its last time.
// After an error, which says why the valid part ends, rest has the bytes after the last valid block.
func (a *archive) survey(f file) (seen file, err error) {
	good := int64(0)
	seen = f
	seen.first = 0
	err = a.each(f, func(m *minute, end int64) error {
		if seen.first == 0 {
			seen.first = m.times[0]
		}
		seen.last, good = m.times[len(m.times)-1], end
		return nil
	})
	if err != nil {
		seen.rest = f.size - good
	}
	return seen, err
}

// mend takes the rest off a file: it cuts off an unfinished block, and sets a damaged file aside, with a copy of its
// valid part in its place. It returns the files that result. If the disk refuses, the file stays, and only its valid
// part is read; the next start tries again.
func (a *archive) mend(f file, why error) []file {
	path, good := filepath.Join(a.dir, f.name), f.size-f.rest
	var kept []file
	if good > 0 {
		kept = append(kept, file{name: f.name, size: good, first: f.first, last: f.last})
	}
	if errors.Is(why, io.ErrUnexpectedEOF) { // the agent was killed, or the disk was full
		if err := cut(path, good); err != nil {
			a.log.Warn("history: the last minute of a file was not written whole; it stays, and is not read", "file", path, "error", err)
			return []file{f}
		}
		a.log.Info("history: the last minute of a file was not written whole, and is left out", "file", path)
		return kept
	}
	if err := setAside(path, good); err != nil {
		a.log.Warn("history: a damaged file cannot be set aside; it stays, and what is after the damage is not read",
			"file", path, "damage", why, "error", err)
		return []file{f}
	}
	a.log.Warn("history: a damaged file is set aside; what is before the damage stays", "file", path, "aside", path+damaged, "error", why)
	return append(kept, file{name: f.name + damaged, size: f.size, last: f.last})
}

// cut truncates a file, or removes it if nothing of it is good.
func cut(path string, good int64) error {
	err := os.Truncate(path, good)
	if good == 0 {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("cut what is damaged: %w", err)
	}
	return nil
}

// setAside renames a file, and gives its name to a copy of its valid beginning. It writes and syncs the copy first: a
// full disk then changes nothing, and a power cut leaves no empty file in the place of data that were on the disk.
func setAside(path string, good int64) error {
	if good == 0 {
		return rename(path, path+damaged)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = writeDraft(path+draft, text[:min(good, int64(len(text)))])
	}
	if err == nil {
		err = os.Rename(path, path+damaged)
	}
	if err != nil {
		_ = os.Remove(path + draft) // the first error is the one to report
		return fmt.Errorf("set aside what is damaged: %w", err)
	}
	if err := rename(path+draft, path); err != nil {
		return errors.Join(err, rename(path+damaged, path))
	}
	return nil
}

// writeDraft writes a file, and waits until its content is on the disk.
func writeDraft(path string, content []byte) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("draft: %w", err)
	}
	_, err = out.Write(content)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("draft of %d bytes: %w", len(content), err)
	}
	return nil
}

// rename renames a file, with the purpose in the error.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("set aside what is damaged: %w", err)
	}
	return nil
}

// finish ends what setAside of a killed agent began, from the draft that it left, and returns the resulting files. A
// draft beside its file is perhaps not written whole. A draft that stays counts as a file, so that the limits of size
// and age remove it.
func (a *archive) finish(f file) []file {
	path := filepath.Join(a.dir, strings.TrimSuffix(f.name, draft))
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		err = os.Remove(path + draft)
	case errors.Is(err, fs.ErrNotExist):
		if err = rename(path+draft, path); err == nil {
			f.name = strings.TrimSuffix(f.name, draft)
			return a.check(f)
		}
	}
	if err != nil {
		a.log.Warn("history: an unfinished file stays", "file", path+draft, "error", err)
		return []file{f}
	}
	return nil
}

// each reads the minutes of a file, up to its recorded size without rest, and passes the offset at which each ends. An
// end within a block is io.ErrUnexpectedEOF, other invalid text ErrDamaged.
func (a *archive) each(f file, do func(m *minute, end int64) error) error {
	in, err := os.Open(filepath.Join(a.dir, f.name))
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer in.Close()
	r := &blocks{in: io.LimitReader(in, f.size-f.rest)}
	if err := r.begin(); err != nil {
		return fmt.Errorf("history: %s: %w", f.name, err)
	}
	for {
		m, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(m, r.end)
		}
		if err != nil {
			return fmt.Errorf("history: %s, after %d bytes: %w", f.name, r.end, err)
		}
	}
}

// blocks reads the blocks of a file.
type blocks struct {
	in io.Reader
	// end is the offset after the last valid block.
	end  int64
	text []byte
}

// begin reads the head of the file.
func (b *blocks) begin() error {
	head := make([]byte, len(fileHead))
	switch n, err := io.ReadFull(b.in, head); {
	case err == nil:
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err //nolint:wrapcheck // each says which file
	case bytes.HasPrefix([]byte(fileHead), head[:n]):
		return io.ErrUnexpectedEOF
	default:
		return fmt.Errorf("%w: it has no head", ErrDamaged)
	}
	if string(head) != fileHead {
		return fmt.Errorf("%w: it begins with %q instead of %q", ErrDamaged, head, fileHead)
	}
	b.end = int64(len(head))
	return nil
}

// next reads the next minute; it returns io.EOF at the end of the file.
func (b *blocks) next() (*minute, error) {
	var head [blockHead]byte
	if _, err := io.ReadFull(b.in, head[:]); err != nil {
		return nil, err //nolint:wrapcheck // each says which file
	}
	length := int(binary.LittleEndian.Uint32(head[:]))
	if length > longestBlock || castagnoli(head[:4]) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, fmt.Errorf("%w: a block of %d bytes", ErrDamaged, length)
	}
	b.text = slices.Grow(b.text[:0], length)[:length]
	if _, err := io.ReadFull(b.in, b.text); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF // no block is empty
	} else if err != nil {
		return nil, err //nolint:wrapcheck // each says which file
	}
	if castagnoli(b.text) != binary.LittleEndian.Uint32(head[8:]) {
		return nil, fmt.Errorf("%w: a block with another checksum", ErrDamaged)
	}
	m, err := readBlock(b.text)
	if err == nil {
		b.end += blockHead + int64(length)
	}
	return m, err
}

// keep appends a minute, and removes files beyond the limits. It logs a failure once, and tries again with the next
// minute: a minute that was not written is lost.
func (a *archive) keep(m *minute) (ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.append(m)
	switch {
	case err != nil && a.failed == nil:
		a.log.Warn("history stops: all else goes on, and it is tried again each minute", "error", err)
	case err == nil && a.failed != nil:
		a.log.Info("history goes on")
	}
	a.failed = err
	a.forget(m.times[len(m.times)-1])
	return err == nil
}

// append writes a minute to the last file, or to a new file. It cuts off an incomplete block.
func (a *archive) append(m *minute) error {
	if err := a.turn(m.times[0]); err != nil {
		return err
	}
	f := &a.files[len(a.files)-1]
	n, err := a.out.Write(m.block())
	if err == nil {
		f.size, f.last = f.size+int64(n), m.times[len(m.times)-1]
		return nil
	}
	err = fmt.Errorf("write history: %w", err)
	if cutErr := a.out.Truncate(f.size); cutErr != nil {
		err = errors.Join(err, cutErr, a.end()) // the next minute is in another file
	}
	return err
}

// turn makes sure that a minute can be appended to the last file; it may open a new file.
func (a *archive) turn(first int64) error {
	if a.out != nil {
		f := a.files[len(a.files)-1]
		if first >= f.first && first-f.first < fileSpan.Milliseconds() && f.size < a.limits.Bytes/mostFiles {
			return nil
		}
		if err := a.end(); err != nil {
			return err
		}
	}
	name := strconv.FormatInt(first, 10) + ending
	out, err := os.OpenFile(filepath.Join(a.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("new file of the history: %w", err)
	}
	if _, err := out.WriteString(fileHead); err != nil {
		return errors.Join(fmt.Errorf("new file of the history: %w", err), out.Close(), os.Remove(out.Name()))
	}
	a.out = out
	a.files = append(a.files, file{name: name, size: int64(len(fileHead)), first: first, last: first})
	return nil
}

// end closes the file that is open for writing.
func (a *archive) end() error {
	if a.out == nil {
		return nil
	}
	err := a.out.Close()
	if a.out = nil; err != nil {
		return fmt.Errorf("close history: %w", err)
	}
	return nil
}

// close writes the last minute.
func (a *archive) close(m *minute) error {
	if len(m.times) > 0 {
		a.keep(m)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.end()
}

// forget removes the oldest files until the remaining files are within the limits. The last file always stays.
func (a *archive) forget(now int64) {
	for len(a.files) > 1 {
		f := a.files[0]
		if now-f.last <= a.limits.Retention.Milliseconds() && bytesOf(a.files) <= a.limits.Bytes {
			return
		}
		if err := os.Remove(filepath.Join(a.dir, f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			a.log.Warn("history: an old file stays", "error", err)
		}
		a.files = slices.Delete(a.files, 0, 1)
	}
}

// bytes returns the size of all files.
func (a *archive) bytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return bytesOf(a.files)
}

func bytesOf(files []file) (sum int64) {
	for _, f := range files {
		sum += f.size
	}
	return sum
}

// newest returns the time of the last sample.
func (a *archive) newest() (at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.files {
		if f.first != 0 {
			at = max(at, f.last)
		}
	}
	return at
}

// between calls do for the minutes with samples after one time and before another, in the order of the files. A minute
// is valid until do returns. An error of do ends between: also ErrDamaged, which under a valid checksum is a fault of
// the writer, and leaves the file in its place. between skips a file that was removed, and sets a damaged file aside.
func (a *archive) between(from, until int64, do func(*minute) error) error {
	a.mu.Lock()
	files := slices.Clone(a.files)
	a.mu.Unlock()
	for _, f := range files {
		if f.first == 0 || f.last <= from || f.first >= until {
			continue
		}
		var refused error
		err := a.each(f, func(m *minute, _ int64) error {
			if m.times[len(m.times)-1] <= from || m.times[0] >= until {
				return nil
			}
			refused = do(m)
			return refused
		})
		switch {
		case refused != nil:
			return err
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, ErrDamaged), errors.Is(err, io.ErrUnexpectedEOF):
			if err := a.checkAgain(f.name); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return nil
}

// checkAgain checks a file again, and sets it aside if it is damaged.
func (a *archive) checkAgain(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.files, func(f file) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	if i == len(a.files)-1 {
		if err := a.end(); err != nil {
			return err
		}
	}
	a.files = slices.Replace(a.files, i, i+1, a.check(a.files[i])...)
	return nil
}
