package pages

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

// dying is a kernel with process 9, whose leader and first threads end when their file is opened.
type dying struct {
	Kernel
	threads int
	ended   map[int]bool
	// answer is the result of opening a file of an ended thread, by the name of the file; nil is an empty file.
	answer map[string]error
	ends   string // the file whose opening ends its thread
}

func (d *dying) ReadFile(name string) ([]byte, error) {
	var tid int
	if _, err := fmt.Sscanf(name, "proc/9/task/%d/stat", &tid); err != nil {
		tid = 9
	}
	state := "S"
	if d.ended[tid] {
		state = "Z"
	}
	return fmt.Appendf(nil, "%d (db) %s 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 63 1", tid, state), nil
}

func (d *dying) Open(name string) (fs.File, error) {
	tree := fstest.MapFS{}
	if name == "proc/9/task" {
		for n := range d.threads {
			tree[fmt.Sprintf("%s/%d", name, 9+n)] = &fstest.MapFile{Mode: fs.ModeDir}
		}
		return tree.Open(name)
	}
	var tid int
	var file string
	if _, err := fmt.Sscanf(strings.ReplaceAll(name, "/", " "), "proc %d %s", &tid, &file); err != nil {
		return nil, err
	}
	if file == d.ends && tid < 9+d.threads-1 {
		d.ended[tid] = true
		if err := d.answer[file]; err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		tree[name] = &fstest.MapFile{}
		return tree.Open(name)
	}
	text := map[string]string{"maps": "00400000-00401000 rw-p 00000000 00:00 0\n", "mountinfo": mountsText}[file]
	tree[name] = &fstest.MapFile{Data: []byte(text)}
	return tree.Open(name)
}

// TestSuccessors reads the mappings of a process while its threads end one after the other. A remaining thread must be
// used instead.
func TestSuccessors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file   string
		answer error
	}{
		"no file":         {"maps", syscall.ENOENT},
		"no process":      {"maps", syscall.ESRCH},
		"no memory":       {"maps", nil},
		"no mounts":       {"mountinfo", syscall.EINVAL},
		"no file, mounts": {"mountinfo", syscall.ENOENT},
	} {
		for _, threads := range []int{1, 2, mostSuccessors, mostSuccessors + 2} {
			t.Run(fmt.Sprintf("%s/%d", name, threads), func(t *testing.T) {
				t.Parallel()
				k := &dying{threads: threads, ended: map[int]bool{}, ends: tt.file, answer: map[string]error{tt.file: tt.answer}}
				p, err := Open(k, 9)
				if err != nil {
					t.Fatal(err)
				}
				all, err := p.Mappings()
				if within := threads <= mostSuccessors; within != (err == nil) || within != (len(all) == 1) {
					t.Errorf("%d threads: %d mappings, %v", threads, len(all), err)
				}
			})
		}
	}
}
