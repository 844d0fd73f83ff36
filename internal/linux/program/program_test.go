package program

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/test/child"
	"github.com/berth-project/berth/test/plain"
)

// TestChild is a child process that maps the file that it is told, as the loader maps a library.
func TestChild(t *testing.T) {
	child.Serve(t, func(what string) error {
		path, is := strings.CutPrefix(what, "map ")
		if !is {
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = syscall.Mmap(int(file.Fd()), 0, 1, syscall.PROT_READ, syscall.MAP_PRIVATE)
		return err
	})
}

// groupOf returns a recorded group that contains processes of this host.
func groupOf(t *testing.T, procs ...any) (root *hostfs.Root, host *cgroup.Host) {
	t.Helper()
	recorded := plain.WithGroups(t, "cpuset cpu")
	recorded.Write("sys/fs/cgroup/app/cgroup.procs", strings.Join(strings.Fields(fmt.Sprintln(procs...)), "\n"))
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root, recorded.Cgroups()
}

// anyone attaches a child to no group.
func anyone(int) error { return nil }

// TestOf checks that a Go program of this module follows the quota and a C program does not. A process with libjvm.so
// mapped is a Java virtual machine, whatever its program.
func TestOf(t *testing.T) {
	sleep := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = sleep.Process.Kill(), sleep.Wait() })
	golang, java := child.Start(t, anyone), child.Start(t, anyone)
	library := filepath.Join(t.TempDir(), "libjvm.so")
	if err := os.WriteFile(library, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	java.Tell("map " + library)
	server := Process{PID: golang.Process.Pid, Name: "exe", Runtime: Go, Version: runtime.Version()}
	machine := Process{PID: java.Process.Pid, Name: "exe", Runtime: Java}
	const foreign = "they have no ids here: it takes the host's pid namespace (hostPID)"
	for name, c := range map[string]struct {
		procs []any
		want  Found
	}{
		"empty":             {nil, Found{Answer: None}},
		"C":                 {[]any{sleep.Process.Pid}, Found{Answer: None, Looked: 1}},
		"Go, twice":         {[]any{server.PID, server.PID}, Found{Answer: Follow, Processes: []Process{server}, Following: 1, Looked: 1}},
		"Java":              {[]any{machine.PID}, Found{Answer: Follow, Processes: []Process{machine}, Following: 1, Looked: 1}},
		"one has ended":     {[]any{sleep.Process.Pid, 1 << 30}, Found{Answer: None, Looked: 1}},
		"others unseen":     {[]any{0, 0}, Found{Answer: Unknown, Unseen: 2, Why: foreign}},
		"some unseen":       {[]any{0, sleep.Process.Pid}, Found{Answer: Unknown, Looked: 1, Unseen: 1, Why: foreign}},
		"one of them is Go": {[]any{0, server.PID}, Found{Answer: Follow, Processes: []Process{server}, Following: 1, Looked: 1, Unseen: 1, Why: foreign}},
	} {
		root, host := groupOf(t, c.procs...)
		got, err := Of(t.Context(), root, host, "app")
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestOfIsBounded checks that processes beyond mostProcesses are unseen, and that all are unseen if the context has
// ended.
func TestOfIsBounded(t *testing.T) {
	self := os.Getpid()
	procs := []any{self}
	for i := range mostProcesses + 9 {
		procs = append(procs, 1<<30+i)
	}
	root, host := groupOf(t, procs...)
	got, err := Of(t.Context(), root, host, "app")
	if err != nil || got.Following != 1 || got.Unseen != 10 || got.Why != errMany.Error() {
		t.Errorf("%+v, %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := Of(ended, root, host, "app"); err != nil || got.Answer != Unknown || got.Why != errLate.Error() {
		t.Errorf("without time: %+v, %v", got, err)
	}
	if _, err := Of(t.Context(), root, host, "none"); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("a missing group: %v", err)
	}
}

// TestRecordedProcessesAreUnknown checks that a link in a recorded /proc is not followed to a file of this host.
func TestRecordedProcessesAreUnknown(t *testing.T) {
	_, host := groupOf(t, os.Getpid())
	recorded, proc := plain.New(t), fmt.Sprintf("proc/%d/", os.Getpid())
	recorded.Write(proc+"comm", "")
	recorded.Write(proc+"maps", "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, recorded.Path(proc, "exe")); err != nil {
		t.Fatal(err)
	}
	got, err := Of(t.Context(), recorded.Root(), host, "app")
	if err != nil || got.Answer != Unknown || !strings.Contains(got.Why, hostfs.ErrNoLink.Error()) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFollows(t *testing.T) {
	godebug := func(value string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "CGO_ENABLED", Value: "0"}, {Key: "DefaultGODEBUG", Value: value}}
	}
	for name, c := range map[string]struct {
		info buildinfo.BuildInfo
		want bool
	}{
		"1.25":              {buildinfo.BuildInfo{GoVersion: "go1.25"}, true},
		"1.26.8":            {buildinfo.BuildInfo{GoVersion: "go1.26.8 X:nodwarf5"}, true},
		"a vendor's":        {buildinfo.BuildInfo{GoVersion: "go1.25.3-vendor2"}, true},
		"1.24.9":            {buildinfo.BuildInfo{GoVersion: "go1.24.9"}, false},
		"1.3":               {buildinfo.BuildInfo{GoVersion: "go1.3"}, false},
		"of an old module":  {buildinfo.BuildInfo{GoVersion: "go1.26", Settings: godebug("containermaxprocs=0,tlssha1=1,updatemaxprocs=0")}, false},
		"only at the start": {buildinfo.BuildInfo{GoVersion: "go1.26", Settings: godebug("updatemaxprocs=0")}, false},
		"of CPUs only":      {buildinfo.BuildInfo{GoVersion: "go1.26", Settings: godebug("containermaxprocs=0")}, false},
		"another choice":    {buildinfo.BuildInfo{GoVersion: "go1.26", Settings: godebug("tlssha1=1,updatemaxprocs=1")}, true},
		"automaxprocs":      {buildinfo.BuildInfo{GoVersion: "go1.26", Deps: []*debug.Module{{Path: "go.uber.org/automaxprocs"}}}, false},
		"another module":    {buildinfo.BuildInfo{GoVersion: "go1.26", Deps: []*debug.Module{{Path: "go.uber.org/zap"}}}, true},
	} {
		if got := follows(&c.info); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// patched is a file with some bytes replaced.
type patched struct {
	io.ReaderAt

	at   int64
	with []byte
}

func (p patched) ReadAt(to []byte, at int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(to, at)
	for i, b := range p.with {
		if k := p.at + int64(i) - at; k >= 0 && k < int64(n) {
			to[k] = b
		}
	}
	return n, err
}

// TestBuildWithoutSections checks that the sections of a program are not read, whatever its header says about them.
func TestBuildWithoutSections(t *testing.T) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	want := build{version: runtime.Version(), follows: true}
	for name, file := range map[string]io.ReaderAt{
		"as it is":          self,
		"sections anywhere": patched{self, 0x28, []byte{1, 2, 3, 4, 5, 6, 7, 0}},
		"many sections":     patched{self, 0x3c, []byte{0xff, 0xfe, 0, 1}},
	} {
		if got := buildOf(file); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// hole is a large file of zeros after its beginning.
type hole struct{ begin []byte }

func (h hole) ReadAt(to []byte, at int64) (int, error) {
	clear(to)
	if at < int64(len(h.begin)) {
		copy(to, h.begin[at:])
	}
	return len(to), nil
}

// broken is a file that cannot be read behind its header.
type broken struct{ hole }

func (b broken) ReadAt(to []byte, at int64) (int, error) {
	if at > 0x1000 {
		return 0, &fs.PathError{Op: "read", Path: "exe", Err: syscall.EIO}
	}
	return b.hole.ReadAt(to, at)
}

// loaded returns the header of an ELF program with one writable segment of the given size.
func loaded(size uint64) []byte {
	header := make([]byte, 0x40+0x38)
	copy(header, "\x7fELF\x02\x01\x01")
	put := func(at int, value uint64, n int) {
		for i := range n {
			header[at+i] = byte(value >> (8 * i))
		}
	}
	put(0x10, 2, 2)    // e_type: EXEC
	put(0x12, 0x3e, 2) // e_machine: x86-64
	put(0x14, 1, 4)    // e_version
	put(0x20, 0x40, 8) // e_phoff
	put(0x34, 0x40, 2) // e_ehsize
	put(0x36, 0x38, 2) // e_phentsize
	put(0x38, 1, 2)    // e_phnum
	put(0x40, 1, 4)    // p_type: LOAD
	put(0x44, 6, 4)    // p_flags: RW
	put(0x48, 0x2000, 8)
	put(0x50, 0x2000, 8)
	put(0x60, size, 8)
	put(0x68, size, 8)
	return header
}

// TestBuildIsBounded checks that only a bounded part of a program is read. A program that cannot be read is not
// reported as a program that Go did not build.
func TestBuildIsBounded(t *testing.T) {
	if got := buildOf(hole{loaded(1 << 20)}); got != (build{}) {
		t.Errorf("a program that Go did not build: %+v", got)
	}
	if got := buildOf(hole{loaded(1 << 40)}); !errors.Is(got.err, errLarge) {
		t.Errorf("a large one: %+v", got)
	}
	if got := buildOf(broken{hole{loaded(1 << 20)}}); !errors.Is(got.err, syscall.EIO) {
		t.Errorf("one that cannot be read: %+v", got)
	}
	if got := buildOf(strings.NewReader("#!/bin/sh\n")); got != (build{}) {
		t.Errorf("a script: %+v", got)
	}
}

func FuzzBuild(f *testing.F) {
	f.Add(loaded(1 << 20))
	f.Add([]byte("\x7fELF\x01\x01\x01"))
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got := buildOf(bytes.NewReader(text)); got.follows && got.version == "" {
			t.Errorf("%+v", got)
		}
	})
}
