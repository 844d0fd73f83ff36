package doctor

import (
	"math"
	"strings"
	"testing"
)

// FuzzFiles gives arbitrary text to every parser and every check. None may fail, and none may compute a share that is
// not a number.
func FuzzFiles(f *testing.F) {
	f.Add("cpu 1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\nprocs_running 3\n", "7 (a) b) R 1 2 3\n", "cpu.stat")
	f.Add("     CPU0 CPU1\n24: 1 2 x\nLOC: 9 9\n", "1 (x) D"+strings.Repeat(" 5", 49), "schedstat")
	f.Add("Node 0 MemTotal: 5 kB\n", "99999999999999999999 -1 NaN", "meminfo")
	f.Add("some avg10=0\nfull avg10=0.00 total=77\n", "0-3,9", "status")
	f.Fuzz(func(t *testing.T, one, other, name string) {
		files := map[string]string{
			"sys/devices/system/cpu/online":                             "0-1\n",
			"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0\n",
			"sys/devices/system/cpu/cpu1/topology/thread_siblings_list": "1\n",
		}
		before, err := SampleOf(files)
		if err != nil {
			t.Fatal(err)
		}
		now := &Sample{files: map[string]string{uptimeFile: "9 9"}, denied: map[string]string{}, machine: before.machine}
		for fixed := range fixed() {
			now.files[fixed] = one
		}
		now.files[uptimeFile] = "9 9"
		for _, file := range groupFiles() {
			now.files["sys/fs/cgroup/x/"+file] = other
		}
		for _, file := range []string{"stat", "schedstat", "status", "wchan"} {
			now.files["proc/7/task/7/"+file] = other
		}
		now.files["proc/2/task/2/stat"] = "2 (k) S" + strings.Repeat(" 2097152", 49)
		now.files["sys/devices/system/node/node0/"+name] = one
		now.files["proc/irq/24/effective_affinity_list"] = other
		for _, finding := range Examine(before, now).Findings {
			for _, e := range finding.Evidence {
				if strings.Contains(e.Value, "NaN") && !strings.Contains(one+other, "NaN") {
					t.Errorf("%s: %q", finding.Code, e.Value)
				}
			}
		}
		if s := scrubStat(other); s != "" && len(s) > len(other)+2+statFields {
			t.Errorf("%q became longer: %q", other, s)
		}
		if n := number(one); math.IsNaN(n) || math.IsInf(n, 0) {
			t.Errorf("%q is %v", one, n)
		}
		for key, n := range keyed(one) {
			if math.IsNaN(n) || math.IsInf(n, 0) {
				t.Errorf("%s is %v", key, n)
			}
		}
	})
}
