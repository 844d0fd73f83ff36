package cgroup_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/cgroup"
)

const (
	cpuMount    = "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	memoryMount = "32 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	hugeMount   = "33 23 0:30 / /sys/fs/cgroup/hugetlb rw - cgroup cgroup rw,hugetlb\n"
	v2Mount     = "34 23 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
)

// v1Stat is memory.numa_stat as Linux 6.18 prints it, with a second node added.
const v1Stat = `total=6335 N0=6335 N1=0
file=1125 N0=1125 N1=0
anon=374 N0=374 N1=0
unevictable=4836 N0=4836 N1=0
hierarchical_total=2148310 N0=2148300 N1=10
hierarchical_file=1462444 N0=1462442 N1=2
hierarchical_anon=681027 N0=681020 N1=7
hierarchical_unevictable=4839 N0=4838 N1=1
`

// v2Stat has the lines that Linux prints on v2, in the same order.
const v2Stat = `anon N0=1000000 N1=20480
file N0=3000000 N1=8192
kernel_stack N0=65536 N1=0
pagetables N0=102400 N1=4096
sec_pagetables N0=0 N1=0
shmem N0=500000 N1=12288
file_mapped N0=40960 N1=0
file_dirty N0=0 N1=0
file_writeback N0=0 N1=0
swapcached N0=0 N1=0
anon_thp N0=0 N1=0
file_thp N0=0 N1=0
shmem_thp N0=0 N1=0
inactive_anon N0=0 N1=0
active_anon N0=1000000 N1=20480
inactive_file N0=2500000 N1=0
active_file N0=0 N1=0
unevictable N0=0 N1=0
slab_reclaimable N0=0 N1=0
slab_unreclaimable N0=0 N1=0
workingset_refault_anon N0=0 N1=0
`

func memoryOf(t testing.TB, files map[string]string, path string) (*cgroup.Memory, error) {
	t.Helper()
	g, err := written(t, files).Group(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	m, err := g.Memory()
	if err == nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, err
}

func v1Files(more map[string]string) map[string]string {
	files := map[string]string{
		"proc/self/mountinfo":                        cpuMount + memoryMount + hugeMount,
		"sys/fs/cgroup/cpu/app/cpu.stat":             "",
		"sys/fs/cgroup/memory/app/memory.numa_stat":  v1Stat,
		"sys/fs/cgroup/hugetlb/app/hugetlb.2MB.rsvd": "",
	}
	maps.Copy(files, more)
	return files
}

func v2Files(more map[string]string) map[string]string {
	files := map[string]string{
		"proc/self/mountinfo":                  v2Mount,
		"sys/fs/cgroup/cgroup.controllers":     "cpuset cpu memory hugetlb",
		"sys/fs/cgroup/app/cgroup.controllers": "cpu memory",
		"sys/fs/cgroup/app/memory.numa_stat":   v2Stat,
	}
	maps.Copy(files, more)
	return files
}

func TestMemoryByNode(t *testing.T) {
	page := int64(os.Getpagesize())
	for name, c := range map[string]struct {
		files map[string]string
		want  cgroup.MemoryByNode
	}{
		"v1, pages of the group and below": {v1Files(nil), cgroup.MemoryByNode{
			Movable: []int64{(681020 + 4838) * page, 8 * page}, File: []int64{1462442 * page, 2 * page},
		}},
		"v1, huge pages": {v1Files(map[string]string{
			"sys/fs/cgroup/hugetlb/app/hugetlb.2MB.numa_stat": "total=2097152 N0=2097152 N1=0\nhierarchical_total=6291456 N0=2097152 N1=4194304\n",
			"sys/fs/cgroup/hugetlb/app/hugetlb.1GB.numa_stat": "total=0 N0=0 N1=0\nhierarchical_total=1073741824 N0=1073741824 N1=0\n",
		}), cgroup.MemoryByNode{
			Movable: []int64{(681020+4838)*page + 2097152 + 1073741824, 8*page + 4194304}, File: []int64{1462442 * page, 2 * page},
		}},
		"v2, shared pages are part of file": {v2Files(nil), cgroup.MemoryByNode{
			Movable: []int64{1500000, 32768}, File: []int64{2500000, 0},
		}},
		"v2, huge pages of a third node": {v2Files(map[string]string{
			"sys/fs/cgroup/app/hugetlb.2MB.numa_stat": "total=2097152 N0=0 N1=0 N2=2097152\n",
		}), cgroup.MemoryByNode{
			Movable: []int64{1500000, 32768, 2097152}, File: []int64{2500000, 0},
		}},
		"v2, node 3 only, and a file longer than a page": {v2Files(map[string]string{
			"sys/fs/cgroup/app/memory.numa_stat": "anon N3=4096\nfile N3=0\n" + strings.Repeat("later_kernels N3=1\n", 900) + "shmem N3=0\n",
		}), cgroup.MemoryByNode{Movable: []int64{0, 0, 0, 4096}, File: []int64{0, 0, 0, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := memoryOf(t, c.files, "app")
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time into the same slices
				got, err := m.ByNode()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestMemoryLimits(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"v1, none": {v1Files(map[string]string{
			"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "25948160\n",
		}), "25948160; false"},
		"v1": {v1Files(map[string]string{
			"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "0\n",
		}), "0; 1073741824"},
		"v2, none": {v2Files(map[string]string{
			"sys/fs/cgroup/app/memory.max":     "max\n",
			"sys/fs/cgroup/app/memory.current": "8192\n",
		}), "8192; false"},
		"v2": {v2Files(map[string]string{
			"sys/fs/cgroup/app/memory.max":     "4096\n",
			"sys/fs/cgroup/app/memory.current": "-1\n",
		}), "malformed; 4096"},
		"v2, the root": {v2Files(nil), "kernel has no such cgroup file; kernel has no such cgroup file"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := memoryOf(t, c.files, "app")
			if err != nil {
				t.Fatal(err)
			}
			current, cerr := m.Current()
			limit, limited, lerr := m.Limit()
			limitText := text(limit, lerr)
			if lerr == nil && !limited {
				limitText = "false"
			}
			if got := fmt.Sprintf("%s; %s", text(current, cerr), limitText); got != c.want {
				t.Errorf("current; limit = %s, want %s", got, c.want)
			}
		})
	}
}

func TestMemoryErrors(t *testing.T) {
	without := v1Files(nil)
	delete(without, "sys/fs/cgroup/memory/app/memory.numa_stat")
	for name, c := range map[string]struct {
		files map[string]string
		want  error
	}{
		"no hierarchy": {map[string]string{
			"proc/self/mountinfo": cpuMount, "sys/fs/cgroup/cpu/app/cpu.stat": "",
		}, cgroup.ErrNoHierarchy},
		"no group in the hierarchy": {without, cgroup.ErrNoGroup},
		"no controller in the group": {map[string]string{
			"proc/self/mountinfo":                  v2Mount,
			"sys/fs/cgroup/cgroup.controllers":     "cpu memory",
			"sys/fs/cgroup/app/cgroup.controllers": "cpu",
		}, cgroup.ErrNoController},
		"no NUMA in the kernel": {map[string]string{
			"proc/self/mountinfo":                  v2Mount,
			"sys/fs/cgroup/cgroup.controllers":     "cpu memory",
			"sys/fs/cgroup/app/cgroup.controllers": "cpu memory",
		}, cgroup.ErrNoKnob},
		"a node too far": {v2Files(map[string]string{"sys/fs/cgroup/app/memory.numa_stat": "anon N1024=1\n"}), cgroup.ErrMalformed},
		"no number":      {v2Files(map[string]string{"sys/fs/cgroup/app/memory.numa_stat": "anon N0=\n"}), cgroup.ErrMalformed},
		"no node":        {v1Files(map[string]string{"sys/fs/cgroup/memory/app/memory.numa_stat": "hierarchical_anon=1 0=1\n"}), cgroup.ErrMalformed},
		"huge pages of no node": {v2Files(map[string]string{
			"sys/fs/cgroup/app/hugetlb.2MB.numa_stat": "total=1 =1\n",
		}), cgroup.ErrMalformed},
		"a huge file": {v2Files(map[string]string{"sys/fs/cgroup/app/memory.numa_stat": strings.Repeat("x N0=1\n", 1<<18)}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := memoryOf(t, c.files, "app")
			if err == nil {
				_, err = m.ByNode()
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("ByNode: %v, want %v", err, c.want)
			}
		})
	}
}

// TestMemoryIsOptional checks that Berth does not use a host with only a memory hierarchy, and that an additional
// memory hierarchy changes nothing for the other controllers.
func TestMemoryIsOptional(t *testing.T) {
	if _, err := open(t, memoryMount+hugeMount); !errors.Is(err, cgroup.ErrNoHierarchy) {
		t.Errorf("Open = %v, want %v", err, cgroup.ErrNoHierarchy)
	}
	host := written(t, map[string]string{
		"proc/self/mountinfo":                        v2Mount + "32 34 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
		"sys/fs/cgroup/cgroup.controllers":           "cpu cpuset",
		"sys/fs/cgroup/memory/other/memory.max":      "",
		"sys/fs/cgroup/memory/app/memory.numa_stat":  v1Stat,
		"sys/fs/cgroup/app/cgroup.controllers":       "cpu",
		"sys/fs/cgroup/app/deeper/cgroup.procs":      "",
		"sys/fs/cgroup/memory/app/memory.stat":       "",
		"sys/fs/cgroup/memory/app/sub/memory.stat":   "",
		"sys/fs/cgroup/memory/app/sub/memory.events": "",
	})
	if host.Layout() != "v2" {
		t.Errorf("layout %s, want v2", host.Layout())
	}
	if g, err := host.Group("other"); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("Group(other) = %v, %v, want %v", g, err, cgroup.ErrNoGroup)
	}
	g, err := host.Group("app")
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Memory()
	if err := errors.Join(err, g.Close()); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.ByNode(); err != nil {
		t.Errorf("after the group's handle is closed: %v", err)
	}
}

func TestMemoryOfRemovedGroup(t *testing.T) {
	host := written(t, v2Files(nil))
	g, err := host.Group("app")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	dir := filepath.Join(host.Root().Path(), "sys/fs/cgroup/app")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Memory(); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("removed: %v, want %v", err, cgroup.ErrNoGroup)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Memory(); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("made again: %v, want %v", err, cgroup.ErrNoGroup)
	}
}

func TestMemoryByNodeDoesNotAllocate(t *testing.T) {
	for name, files := range map[string]map[string]string{"v1": v1Files(nil), "v2": v2Files(nil)} {
		m, err := memoryOf(t, files, "app")
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = m.ByNode() }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkMemoryByNode(b *testing.B) {
	m, err := memoryOf(b, v2Files(nil), "app")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.ByNode(); err != nil {
			b.Fatal(err)
		}
	}
}
