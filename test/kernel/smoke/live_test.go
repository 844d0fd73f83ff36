package smoke

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/test/kernel/job"
	"github.com/berth-project/berth/test/patience"
)

// layout returns the cgroup layout of the test machine; on any other host it skips the test.
func layout(t *testing.T) string {
	t.Helper()
	name := job.Param(read(t, "/proc/cmdline"), job.LayoutParam)
	if name == "" {
		t.Skip("this host is no test machine; runs in the VM: make test")
	}
	return name
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestMachineHasTwoSocketsNodesAndSiblings(t *testing.T) {
	layout(t)
	for file, want := range map[string]string{
		"cpu/online":                             "0-7",
		"cpu/cpu0/topology/thread_siblings_list": "0-1",
		"cpu/cpu0/topology/package_cpus_list":    "0-3",
		"cpu/cpu7/topology/thread_siblings_list": "6-7",
		"cpu/cpu7/topology/physical_package_id":  "1",
		"node/online":                            "0-1",
		"node/node0/cpulist":                     "0-3",
		"node/node0/distance":                    "10 21",
		"node/node1/cpulist":                     "4-7",
		"node/node1/distance":                    "21 10",
	} {
		if got := read(t, filepath.Join("/sys/devices/system", file)); got != want {
			t.Errorf("%s = %q, want %q", file, got, want)
		}
	}
}

func TestEachNodeHasMemory(t *testing.T) {
	layout(t)
	for node := range 2 {
		info := read(t, fmt.Sprintf("/sys/devices/system/node/node%d/meminfo", node))
		var total int
		line, _, _ := strings.Cut(info, "\n")
		if _, err := fmt.Sscanf(line, "Node "+strconv.Itoa(node)+" MemTotal: %d kB", &total); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if total < 500<<10 {
			t.Errorf("node %d has %d kB", node, total)
		}
	}
}

// TestControllersAreWhereTheLayoutSays checks for each controller's own file in a new group.
func TestControllersAreWhereTheLayoutSays(t *testing.T) {
	files := map[string][]string{
		"v2":     {"cpu.max", "cpu.max.burst", "cpu.stat", "cpuset.cpus", "memory.numa_stat", "hugetlb.2MB.max"},
		"v1":     {"cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_burst_us", "cpuacct/cpuacct.usage", "cpuset/cpuset.cpus", "memory/memory.numa_stat", "hugetlb/hugetlb.2MB.limit_in_bytes"},
		"hybrid": {"cpu,cpuacct/cpu.cfs_burst_us", "cpu,cpuacct/cpuacct.usage", "cpuset/cpuset.cpus", "memory/memory.numa_stat", "hugetlb/hugetlb.2MB.limit_in_bytes", "unified/cgroup.procs"},
	}
	for _, file := range files[layout(t)] {
		t.Run(file, func(t *testing.T) {
			dir, name := filepath.Split(file)
			if _, err := os.Stat(filepath.Join(makeGroup(t, dir), name)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestQuotaThrottles checks that the kernel throttles a spinning process with a quota of a tenth of a CPU.
func TestQuotaThrottles(t *testing.T) {
	dir, quota := "", func(group string) { write(t, filepath.Join(group, "cpu.max"), "10000 100000") }
	if l := layout(t); l != "v2" {
		dir = map[string]string{"v1": "cpu", "hybrid": "cpu,cpuacct"}[l]
		quota = func(group string) {
			write(t, filepath.Join(group, "cpu.cfs_period_us"), "100000")
			write(t, filepath.Join(group, "cpu.cfs_quota_us"), "10000")
		}
	}
	group := makeGroup(t, dir)
	quota(group)
	startSpinner(t, group)
	err := patience.Until(t.Context(), 100*time.Millisecond, func() string {
		if n := throttled(t, group); n < 5 {
			return fmt.Sprintf("throttled in %d periods", n)
		}
		return ""
	})
	if err != nil {
		t.Fatalf("%v: %s", err, read(t, filepath.Join(group, "cpu.stat")))
	}
}

// makeGroup makes a group in a hierarchy and removes it after the test.
func makeGroup(t *testing.T, hierarchy string) string {
	t.Helper()
	group := filepath.Join("/sys/fs/cgroup", hierarchy, "berth-test-smoke")
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
	return group
}

// startSpinner starts this binary again, inside the group, as a process that only burns CPU.
func startSpinner(t *testing.T, group string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), spinner+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // It never ends by itself.
		_ = cmd.Wait()
	})
	write(t, filepath.Join(group, "cgroup.procs"), strconv.Itoa(cmd.Process.Pid))
}

func throttled(t *testing.T, group string) int {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(read(t, filepath.Join(group, "cpu.stat"))))
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "nr_throttled "); ok {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("cpu.stat has no nr_throttled")
	return 0
}
