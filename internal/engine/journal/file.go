package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/value/durable"
)

// allocationUnit is how much more disk space is reserved at a time, in bytes, so that not every record costs a system
// call.
const allocationUnit = 16 << 10

// journalFile is the open journal: records are appended at size, and the disk space up to reserved is already
// allocated.
type journalFile struct {
	file     *os.File
	size     int64
	reserved int64
	// ends is written before the next record to end a line that was cut off; nil when no line was cut off.
	ends []byte
	// write, flush and allocate are the methods of the file; tests replace them.
	write    func(data []byte, at int64) (int, error)
	flush    func() error
	allocate func(size int64) error
}

// openFile opens the existing journal and cuts off everything after the last good line, which ends at byte sound.
func openFile(name string, sound int64) (*journalFile, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	jf := wrapFile(f, sound)
	if err := jf.cutAfter(); err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return jf, nil
}

// cutAfter cuts off everything after the last good line. It does not truncate a file that ends there, whose reserved
// space stays: a truncation is a transaction of the file system, which may wait for the disk.
func (f *journalFile) cutAfter() error {
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("look at journal: %w", err)
	}
	if f.reserved = f.size; info.Size() == f.size {
		return nil
	}
	return f.cut()
}

// openWhole opens the existing journal of the given size in bytes and cuts nothing off, although its last line may be
// partial.
func openWhole(name string, size int64, partial bool) (*journalFile, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	jf := wrapFile(f, size)
	jf.reserved = size
	if partial {
		jf.ends = []byte("#\n") // a newline alone might make the line a good one
	}
	return jf, nil
}

func wrapFile(f *os.File, size int64) *journalFile {
	return &journalFile{
		file:  f,
		size:  size,
		write: f.WriteAt,
		flush: f.Sync,
		// The file size does not change, so that the file still ends with its last record.
		allocate: func(size int64) error {
			return uninterrupted(func() error {
				return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
			})
		},
	}
}

// createFile replaces the journal in the directory by a new file with these records. A crash leaves the old file or the
// new file, complete. createFile calls aside once the new file exists, right before it replaces the old file. The
// returned file has its space reserved; on an error before the rename the old file is untouched.
func createFile(dir string, records []record, spare int64, aside func() error) (*journalFile, error) {
	content, err := encodeAll(records)
	if err != nil {
		return nil, err
	}
	temporary := filepath.Join(dir, fileName+".new")
	f, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create journal: %w", err)
	}
	jf := wrapFile(f, 0)
	err = jf.fill(content, spare)
	if err == nil {
		err = aside()
	}
	if err == nil {
		err = os.Rename(temporary, filepath.Join(dir, fileName))
	}
	if err != nil {
		_ = f.Close()            // the first error is the one to report
		_ = os.Remove(temporary) // likewise
		return nil, fmt.Errorf("replace journal: %w", err)
	}
	return jf, durable.SyncDir(dir)
}

// fill writes the first content of a new file, with spare bytes reserved behind it.
func (f *journalFile) fill(content []byte, spare int64) error {
	if err := f.reserve(int64(len(content)) + spare); err != nil {
		return err
	}
	if err := f.append(content); err != nil {
		return err
	}
	return f.sync()
}

// append writes data at the end. When the write fails, the end of the file does not change.
func (f *journalFile) append(data []byte) error {
	if f.ends != nil {
		data = slices.Concat(f.ends, data)
	}
	n, err := f.write(data, f.size)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, f.cut())
		}
		return fmt.Errorf("append %d bytes to journal: %w", len(data), err)
	}
	f.size += int64(n)
	f.ends = nil
	return nil
}

// cut ends the file after the last whole record. It also releases the space reserved behind that record.
func (f *journalFile) cut() error {
	f.reserved = f.size
	if err := f.file.Truncate(f.size); err != nil {
		return fmt.Errorf("cut journal to %d bytes: %w", f.size, err)
	}
	return nil
}

// reserve makes sure that disk space for want more bytes is allocated to the file. A file system that cannot reserve is
// assumed to have room.
func (f *journalFile) reserve(want int64) error {
	need := f.size + want
	if need <= f.reserved {
		return nil
	}
	for _, size := range []int64{need + allocationUnit, need} {
		err := f.allocate(size)
		switch {
		case err == nil, errors.Is(err, errors.ErrUnsupported):
			f.reserved = size
			return nil
		case size == need:
			return fmt.Errorf("reserve %d bytes for journal: %w", size, err)
		}
	}
	return nil
}

func (f *journalFile) sync() error {
	if err := f.flush(); err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	return nil
}

func (f *journalFile) close() error {
	if err := f.file.Close(); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

// uninterrupted repeats a system call that a signal interrupted.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
