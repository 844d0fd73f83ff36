package narrowing

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/test/kernel/job"
)

// loadEnv makes the test binary a process with so many MiB on node 1, a memory policy, and so many additional threads.
const loadEnv = "BERTH_TEST_LOAD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(loadEnv); spec != "" {
		if err := load(spec); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// The modes of set_mempolicy(2), from include/uapi/linux/mempolicy.h.
const (
	useDefault = 0
	useBind    = 2
	interleave = 3
	static     = 1 << 15
)

func load(spec string) error {
	runtime.LockOSThread()
	var mib, policy, threads int
	if _, err := fmt.Sscan(spec, &mib, &policy, &threads); err != nil {
		return err
	}
	var ready sync.WaitGroup
	for range threads {
		ready.Add(1)
		go func() {
			runtime.LockOSThread()
			ready.Done()
			select {}
		}()
	}
	ready.Wait()
	region, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	if err := place(region, useBind, 1<<1); err != nil { // of the mapping: new threads inherit a thread's
		return err
	}
	for i := 0; i < len(region); i += pages.Size {
		region[i] = 1
	}
	if err := place(region, useDefault, 0); err != nil {
		return err
	}
	if policy != useDefault {
		var both unix.CPUSet
		both.Set(0)
		both.Set(1)
		if err := unix.SetMemPolicy(policy, &both); err != nil {
			return err
		}
	}
	fmt.Println("loaded")
	_, err = io.ReadAll(os.Stdin)
	return err
}

// place sets or removes the memory policy of a region.
func place(region []byte, policy int, nodes uint64) error {
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(region))), uintptr(len(region)),
		uintptr(policy), uintptr(unsafe.Pointer(&nodes)), 64, 0)
	if errno != 0 {
		return fmt.Errorf("policy %d of the region: %w", policy, errno)
	}
	return nil
}

// stage is a group of the running kernel with one process in it.
type stage struct {
	*testing.T

	looks *Looks
	group *scratch.Group
	pid   int
	mems  string // the file cpuset.mems
	v2    bool
}

func newStage(t *testing.T, mib, policy, threads int) *stage {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes groups; runs in the VM: make vm")
	}
	if _, err := os.Stat("/sys/devices/system/node/node1"); err != nil {
		t.Skip("one NUMA node; runs in the VM: make vm")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := hostfs.Open("/")
	must(err)
	t.Cleanup(func() { _ = root.Close() })
	host, err := cgroup.Open(root)
	must(err)
	group, err := scratch.New(host, "", scratch.Name("narrowing"))
	must(err)
	t.Cleanup(func() { must(group.Close()) })
	must(group.WithMemory())
	hier, err := host.Hierarchy(cgroup.CPUSet)
	must(err)
	began := time.Now()
	s := &stage{T: t, group: group, v2: hier.Version == 2, mems: filepath.Join("/", hier.Mount, group.Path(), "cpuset.mems")}
	s.looks = OnHost(root, host, func() time.Duration { return time.Since(began) })
	self, err := os.Executable()
	must(err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d", loadEnv, mib, policy, threads))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(err)
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // It may have been killed.
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	must(err)
	if line != "loaded\n" {
		t.Fatalf("it says %q", line)
	}
	s.pid = cmd.Process.Pid
	must(group.Attach(s.pid))
	return s
}

// narrow writes memory nodes.
func (s *stage) narrow(mems string) {
	s.Helper()
	if err := os.WriteFile(s.mems, []byte(mems), 0); err != nil {
		s.Fatal(err)
	}
}

// maps returns numa_maps of all threads of the process.
func (s *stage) maps() string {
	s.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/numa_maps", s.pid))
	if err != nil {
		s.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) {
			s.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// elsewhere returns how many pages the largest mapping of the process has on node 1.
func (s *stage) elsewhere() (most int) {
	s.Helper()
	for _, found := range regexp.MustCompile(` N1=(\d+)`).FindAllStringSubmatch(s.maps(), -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			s.Fatal(err)
		}
		most = max(most, n)
	}
	return most
}

// TestLiveWhatIsInTheWay checks with real processes which states of memory prevent narrowing.
func TestLiveWhatIsInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		mib, policy int
		want        error
	}{
		"a little elsewhere":  {16, useDefault, nil},
		"too much elsewhere":  {96, useDefault, ErrElsewhere},
		"a policy":            {1, interleave, ErrPolicy},
		"a policy that stays": {1, interleave | static, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, c.mib, c.policy, 0)
			if err := s.looks.look(t.Context(), s.group.Path(), node(0)); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Fatalf("%v, want %v\n%s", err, c.want, s.maps())
			}
			if err := s.looks.look(t.Context(), s.group.Path(), node(0, 1)); c.policy == useDefault && err != nil {
				t.Errorf("of all nodes: %v", err)
			}
		})
	}
}

// TestLiveThreads checks that threads of real processes limit narrowing if the group would lose a node, unless pages
// stay. It logs the cost of the writes, including those that no check allows, because the cost depends on the machine.
// With a stride it widens no group of many threads: the check reads a file of each thread, which takes an emulated
// processor 50 ms.
func TestLiveThreads(t *testing.T) {
	stride, err := job.Stride()
	if err != nil {
		t.Fatal(err)
	}
	for threads, loses := range map[int]error{50: nil, 800: ErrTooLong} {
		t.Run(strconv.Itoa(threads), func(t *testing.T) {
			s := newStage(t, 1, useDefault, threads)
			for _, mems := range []string{"0", "0-1"} {
				if mems != "0" && loses != nil && stride > 1 {
					continue
				}
				to, want := node(0), loses
				if mems != "0" {
					to, want = node(0, 1), nil
				}
				if cgroup.KeepsPages(s.group.Handle()) {
					want = nil
				}
				if err := s.looks.look(t.Context(), s.group.Path(), to); !errors.Is(err, want) || (err == nil) != (want == nil) {
					t.Errorf("to %s: %v, want %v", mems, err, want)
				}
				began := time.Now()
				s.narrow(mems)
				t.Logf("%d threads, cgroup v2 %v: %s took %v", threads, s.v2, mems, time.Since(began))
			}
		})
	}
}

// TestLiveNarrowing checks the claims of doc.go about the kernel. On cgroup v2 the write moves remote pages before it
// returns. On both versions it rebinds a memory policy, widening does not restore that, and widening rebinds, too.
func TestLiveNarrowing(t *testing.T) {
	t.Run("moves", func(t *testing.T) {
		s := newStage(t, 16, useDefault, 0)
		const most = 4000 // of 4,096 pages: it also has other pages
		if s.elsewhere() < most {
			t.Fatalf("16 MiB are not on node 1:\n%s", s.maps())
		}
		s.narrow("0")
		if stays := s.elsewhere() >= most; stays == s.v2 {
			t.Errorf("cgroup v2 %v, the pages stay %v:\n%s", s.v2, stays, s.maps())
		}
	})
	t.Run("rebinds", func(t *testing.T) {
		s := newStage(t, 1, interleave, 0)
		policy := regexp.MustCompile(`interleave:\S+`)
		if got := policy.FindString(s.maps()); got != "interleave:0-1" {
			t.Fatalf("the policy is %q:\n%s", got, s.maps())
		}
		s.narrow("0")
		s.narrow("0-1")
		if got := policy.FindString(s.maps()); got != "interleave:0" {
			t.Errorf("after 0 and 0-1 the policy is %q", got)
		}
	})
	t.Run("rebinds by place", func(t *testing.T) {
		s := newStage(t, 1, interleave, 0)
		policy := regexp.MustCompile(`interleave:\S+`)
		s.narrow("1")
		if got := policy.FindString(s.maps()); got != "interleave:1" {
			t.Fatalf("on node 1 the policy is %q:\n%s", got, s.maps())
		}
		s.narrow("0-1")
		if got := policy.FindString(s.maps()); got != "interleave:0" {
			t.Errorf("from 1 to 0-1 the policy is %q", got)
		}
	})
	t.Run("leaves static policies alone", func(t *testing.T) {
		s := newStage(t, 1, interleave|static, 0)
		s.narrow("0")
		s.narrow("0-1")
		if !strings.Contains(s.maps(), "interleave=static:0-1") {
			t.Errorf("after 0 and 0-1:\n%s", s.maps())
		}
	})
}
