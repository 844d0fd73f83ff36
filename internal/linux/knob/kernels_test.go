package knob_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/topology"
)

var update = flag.Bool("update", false, "write the generated kernels")

// kernelsDir contains one recorded tree per kernel. This file generates the trees of kernels(), from what these kernels
// were seen to have; the other trees were recorded.
const kernelsDir = "../../../testdata/kernels/"

// kernels returns the trees by name: the settings of Debian's kernels on four CPUs and two NUMA nodes, without
// frequency control, as in a virtual machine.
func kernels() map[string]map[string]string {
	older := map[string]string{
		"proc/sys/kernel/sched_latency_ns":            "18000000",
		"proc/sys/kernel/sched_min_granularity_ns":    "2250000",
		"proc/sys/kernel/sched_wakeup_granularity_ns": "3000000",
		"proc/sys/kernel/sched_migration_cost_ns":     "500000",
		"proc/sys/kernel/sched_nr_migrate":            "32",
		"proc/sys/kernel/sched_tunable_scaling":       "1",
		"proc/sys/kernel/numa_balancing_scan_size_mb": "256",
		"sys/kernel/debug/sched_features":             "GENTLE_FAIR_SLEEPERS START_DEBIT",
	}
	cfs := map[string]string{
		"latency_ns": "18000000", "min_granularity_ns": "2250000", "wakeup_granularity_ns": "3000000",
		"idle_min_granularity_ns": "750000", "preempt": "none (voluntary) full",
		"debug": "Sched Debug Version: v0.11, 6.1.176\n  .sysctl_sched_latency                    : 18.000000\n  .sysctl_sched_min_granularity            : 2.250000",
	}
	eevdf := map[string]string{
		"base_slice_ns": "2100000", "preempt": "none (voluntary) full", "fair_server/cpu0/runtime": "50000000",
		"debug": "Sched Debug Version: v0.11, 6.12.90\n  .sysctl_sched_base_slice                 : 2.100000\n  .sysctl_sched_features                   : 6237751",
	}
	newest := maps.Clone(eevdf)
	maps.Copy(newest, map[string]string{"preempt": "full (lazy)", "llc_balancing/enabled": "1"})
	return map[string]map[string]string{
		"5.10.txtar": kernelTree("5.10.223", nil, older),
		"6.1.txtar":  kernelTree("6.1.176", cfs, nil),
		"6.12.txtar": kernelTree("6.12.90", eevdf, map[string]string{
			"modes": "0444 proc/irq/12/smp_affinity_list\n",
			"sys/devices/virtual/workqueue/cpumask_requested": "f",
		}),
		"6.12-lockdown.txtar": kernelTree("6.12.90", eevdf, map[string]string{
			"modes":                        "locked sys/kernel/debug/sched/base_slice_ns\nlocked sys/kernel/debug/sched/migration_cost_ns\nlocked sys/kernel/debug/sched/nr_migrate\nlocked sys/kernel/debug/sched/preempt\n0444 sys/kernel/debug/sched/debug\n",
			"sys/kernel/security/lockdown": "none [integrity] confidentiality",
		}),
		"7.2.txtar": kernelTree("7.2.13", newest, map[string]string{
			"modes":                               "0444 proc/irq/12/smp_affinity_list\n",
			"proc/sys/kernel/sched_rt_runtime_us": "1000000",
			"proc/sys/kernel/sched_autogroup_enabled":         "1",
			"sys/devices/virtual/workqueue/cpumask_requested": "f",
		}),
	}
}

// kernelTree returns a machine with the settings of all these kernels, the given ones of debugfs/sched, and others.
func kernelTree(release string, sched, others map[string]string) map[string]string {
	tree := map[string]string{
		"modes":                                      "",
		"proc/sys/kernel/osrelease":                  release,
		"boot/config-" + release:                     "CONFIG_HZ=250",
		"proc/self/mountinfo":                        "22 27 0:21 / /proc rw,relatime - proc proc rw\n23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n24 23 0:7 / /sys/kernel/debug rw,relatime - debugfs debugfs rw",
		"sys/kernel/security/lockdown":               "[none] integrity confidentiality",
		"proc/sys/kernel/sched_autogroup_enabled":    "0",
		"proc/sys/kernel/sched_rr_timeslice_ms":      "100",
		"proc/sys/kernel/sched_rt_runtime_us":        "950000",
		"proc/sys/kernel/numa_balancing":             "1",
		"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
		"sys/kernel/mm/transparent_hugepage/defrag":  "always defer defer+madvise [madvise] never",
		"sys/devices/virtual/workqueue/cpumask":      "f",
		"proc/irq/default_smp_affinity":              "f",
		"proc/irq/9/smp_affinity_list":               "0-3",
		"proc/irq/12/smp_affinity_list":              "0-3",
		"sys/class/net/eth0/device":                  "",
		"sys/class/net/eth0/queues/rx-0/rps_cpus":    "0",
		"sys/class/net/lo/queues/rx-0/rps_cpus":      "0",
		"sys/devices/system/cpu/online":              "0-3",
		"sys/devices/system/cpu/present":             "0-3",
		"sys/devices/system/node/node0/cpulist":      "0-1",
		"sys/devices/system/node/node1/cpulist":      "2-3",
		"sys/devices/system/node/node0/meminfo":      "Node 0 MemTotal:         524288 kB",
		"sys/devices/system/node/node1/meminfo":      "Node 1 MemTotal:         524288 kB",
		"sys/devices/system/node/node0/distance":     "10 20",
		"sys/devices/system/node/node1/distance":     "20 10",
	}
	for cpu := range 4 {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		tree[dir+"topology/thread_siblings_list"] = fmt.Sprint(cpu)
		tree[dir+"topology/physical_package_id"] = fmt.Sprint(cpu / 2)
		tree[dir+"topology/core_id"] = fmt.Sprint(cpu % 2)
		tree[dir+"power/pm_qos_resume_latency_us"] = "0"
	}
	if sched != nil {
		for name, text := range map[string]string{
			"migration_cost_ns": "500000", "nr_migrate": "32", "tunable_scaling": "1", "numa_balancing/scan_size_mb": "256",
		} {
			tree["sys/kernel/debug/sched/"+name] = text
		}
		for name, text := range sched {
			tree["sys/kernel/debug/sched/"+name] = text
		}
	}
	maps.Copy(tree, others)
	return tree
}

// TestGeneratedKernels compares the files with what generates them.
func TestGeneratedKernels(t *testing.T) {
	for name, tree := range kernels() {
		var text bytes.Buffer
		for file, content := range tree {
			fmt.Fprintf(&text, "-- %s --\n%s\n", file, strings.TrimSuffix(content, "\n"))
		}
		recording, err := topology.ParseRecording(text.Bytes())
		if err != nil {
			t.Fatal(name, err)
		}
		if *update {
			if err := os.WriteFile(kernelsDir+name, recording.Format(), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(kernelsDir + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(have), string(recording.Format())); diff != "" {
			t.Errorf("-update writes %s (-file +generated):\n%s", name, diff)
		}
	}
}

// kernel opens one recorded tree.
func kernel(t *testing.T, name string) *topology.Recording {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kernelsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	recording, err := topology.ParseRecording(text)
	if err != nil {
		t.Fatal(err)
	}
	return recording
}
