package mover_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/pages"
)

// loaderEnv makes the test binary load memory and wait. moverEnv makes it carry out an order for a group until it is
// killed. joinEnv is the file that a loader of the kind join maps.
const (
	loaderEnv = "BERTH_TEST_LOAD"
	moverEnv  = "BERTH_TEST_MOVE"
	joinEnv   = "BERTH_TEST_JOIN"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(moverEnv); spec != "" {
		fmt.Println("error", moveAlone(spec))
		os.Exit(1)
	}
	if spec := os.Getenv(loaderEnv); spec != "" {
		if err := load(spec); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// loaded is a region of another process.
type loaded struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	pid    int
	start  uint64
	size   uint64
}

// addresses returns the addresses of the region's pages.
func (l *loaded) addresses() (all []uint64) {
	for a := l.start; a < l.start+l.size; a += pages.Size {
		all = append(all, a)
	}
	return all
}

// loader starts a process that loads mib MiB of a kind. percent of the pages are on node 0 and the others on node 1.
func loader(t testing.TB, group, kind string, mib, percent int, env ...string) *loaded {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), env...), fmt.Sprintf("%s=%s %d %d %s", loaderEnv, kind, mib, percent, group))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // It may already be dead.
		_ = cmd.Wait()
	})
	l := &loaded{cmd: cmd, stdin: in, stdout: bufio.NewReader(out), pid: cmd.Process.Pid}
	l.answer(t)
	return l
}

// join starts a process of a group that also maps the memfd of this process.
func (l *loaded) join(t testing.TB, group string, mib int) *loaded {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", l.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, "/memfd:load") {
			return loader(t, group, "join", mib, 100, joinEnv+"="+name)
		}
	}
	t.Fatalf("process %d has no memfd: %v", l.pid, files)
	return nil
}

// answer reads the address of the region.
func (l *loaded) answer(t testing.TB) {
	t.Helper()
	line, err := l.stdout.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(line, "loaded %x %x\n", &l.start, &l.size); err != nil {
		t.Fatalf("loader says %q: %v", line, err)
	}
}

// again makes the process load the same amount once more.
func (l *loaded) again(t testing.TB) {
	t.Helper()
	if _, err := io.WriteString(l.stdin, "again\n"); err != nil {
		t.Fatal(err)
	}
	l.answer(t)
}

// load is the loader process. It enters its group, loads memory, reports the address, and loads again on each request.
func load(spec string) error {
	runtime.LockOSThread()
	var kind, group string
	var mib, percent int
	if _, err := fmt.Sscan(spec, &kind, &mib, &percent, &group); err != nil {
		return err
	}
	if group != "-" {
		if err := os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return err
		}
	}
	asked := bufio.NewScanner(os.Stdin)
	for {
		region, err := mapped(kind, mib<<20)
		if err != nil {
			return err
		}
		if err := touch(region, kind, percent); err != nil {
			return err
		}
		if err := twist(region, kind); err != nil {
			return err
		}
		fmt.Printf("loaded %x %x\n", unsafe.SliceData(region), len(region))
		if !asked.Scan() {
			return asked.Err()
		}
	}
}

// mapped maps memory of a kind.
func mapped(kind string, size int) ([]byte, error) {
	flags, fd := unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, -1
	switch kind {
	case "hugetlb":
		flags |= unix.MAP_HUGETLB
	case "shmem":
		flags = unix.MAP_SHARED | unix.MAP_ANONYMOUS
	case "memfd":
		var err error
		if fd, err = unix.MemfdCreate("load", 0); err != nil {
			return nil, err
		}
		flags = unix.MAP_SHARED
	case "join": // the memfd of another process
		shared, err := os.OpenFile(os.Getenv(joinEnv), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		defer shared.Close()
		fd, flags = int(shared.Fd()), unix.MAP_SHARED
	case "file", "written":
		const disk = "/var/tmp" // not a tmpfs
		if err := os.MkdirAll(disk, 0o755); err != nil {
			return nil, err
		}
		f, err := os.CreateTemp(disk, "load")
		if err != nil {
			return nil, err
		}
		defer os.Remove(f.Name())
		fd, flags = int(f.Fd()), unix.MAP_SHARED
		if kind == "written" {
			flags = unix.MAP_PRIVATE
		}
		defer f.Close()
	}
	if fd >= 0 {
		if err := unix.Ftruncate(fd, int64(size)); err != nil {
			return nil, err
		}
	}
	const block = 2 << 20
	region, err := unix.Mmap(fd, 0, size+block, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", kind, err)
	}
	if fd < 0 {
		region = region[-uintptr(unsafe.Pointer(unsafe.SliceData(region)))%block:]
	}
	region = region[:size]
	if kind == "hugetlb" || fd >= 0 {
		return region, nil
	}
	advice := unix.MADV_NOHUGEPAGE
	if kind == "thp" {
		advice = unix.MADV_HUGEPAGE
	}
	if err := unix.Madvise(region, advice); err != nil && kind != "shmem" {
		return nil, fmt.Errorf("advise %s: %w", kind, err)
	}
	return region, nil
}

// touch writes to every page under a memory policy of the thread that chooses the node. Afterwards it resets the
// policy, so the mapping has none of its own.
func touch(region []byte, kind string, percent int) error {
	step := 4 << 10
	if kind == "thp" || kind == "hugetlb" {
		step = 2 << 20
	}
	const bind, none = 2, 0
	for node := range 2 {
		var mask unix.CPUSet
		mask.Set(node)
		if _, err := os.Stat("/sys/devices/system/node/node1"); err == nil {
			if err := unix.SetMemPolicy(bind, &mask); err != nil {
				return fmt.Errorf("bind to node %d: %w", node, err)
			}
		}
		for i := 0; i < len(region); i += step {
			if onFirst := i/step*37%100 < percent; onFirst == (node == 0) {
				region[i] = 1
			}
		}
	}
	return unix.SetMemPolicy(none, nil)
}

// twist applies the special treatment of a kind.
func twist(region []byte, kind string) error {
	switch kind {
	case "mlocked":
		return unix.Mlock(region)
	case "held": // 16 pages are in a pipe
		var p [2]int
		if err := unix.Pipe(p[:]); err != nil {
			return err
		}
		part := unix.Iovec{Base: unsafe.SliceData(region)}
		part.SetLen(16 * 4096)
		_, err := unix.Vmsplice(p[1], []unix.Iovec{part}, 0)
		return err
	case "forked":
		child, _, errno := unix.RawSyscall(unix.SYS_FORK, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		for child == 0 {
			unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
			unix.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
		}
	case "policy":
		return bindTo(region, 1)
	}
	return nil
}

// bindTo binds the pages of a region of this process to one node.
func bindTo(region []byte, node int) error {
	const policy = 2 // MPOL_BIND
	mask := uint64(1) << node
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(region))), uintptr(len(region)),
		policy, uintptr(unsafe.Pointer(&mask)), 64, 0)
	if errno != 0 {
		return fmt.Errorf("bind to node %d: %w", node, errno)
	}
	return nil
}

// isAgain waits until numa_maps reports the same text for the region as before, and returns the last text. A page that
// the kernel is compacting at that moment is missing there.
func (l *loaded) isAgain(t testing.TB, before string) (now string) {
	t.Helper()
	const looks, apart = 250, 20 * time.Millisecond
	for range looks {
		if now = l.line(t); now == before {
			break
		}
		time.Sleep(apart)
	}
	return now
}

// line returns the text of numa_maps for the region. It omits active=, which tells the kernel's LRU list of the pages
// and not their node.
func (l *loaded) line(t testing.TB) string {
	t.Helper()
	lists := regexp.MustCompile(` active=\d+`)
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", l.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, fmt.Sprintf("%08x ", l.start)) {
			return lists.ReplaceAllString(line, "")
		}
	}
	return string(data)
}
