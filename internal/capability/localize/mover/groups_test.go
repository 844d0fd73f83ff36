package mover

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

const unified = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"

// hostOf returns a host with the given files.
func hostOf(t *testing.T, files map[string]string) *cgroup.Host {
	t.Helper()
	h := plain.New(t)
	for name, text := range files {
		h.Write(name, text)
	}
	return h.Cgroups()
}

// TestStalled: the time that a group waited for memory is read per group on cgroup v2, and per host on v1. It is zero
// where the kernel does not count it.
func TestStalled(t *testing.T) {
	t.Parallel()
	const text = "some avg10=1.53 avg60=0.87 avg300=0.73 total=1234567\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
	const legacy = "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  time.Duration
		err   error
	}{
		"v2":          {map[string]string{"proc/self/mountinfo": unified, "sys/fs/cgroup/g/memory.pressure": text, "proc/pressure/memory": "some total=9\n"}, 1234567 * time.Microsecond, nil},
		"v1":          {map[string]string{"proc/self/mountinfo": legacy, "proc/pressure/memory": text}, 1234567 * time.Microsecond, nil},
		"not counted": {map[string]string{"proc/self/mountinfo": legacy}, 0, nil},
		"malformed":   {map[string]string{"proc/self/mountinfo": unified, "sys/fs/cgroup/g/memory.pressure": "full avg10=0.00\n"}, 0, cgroup.ErrMalformed},
	} {
		tt.files["sys/fs/cgroup/cgroup.controllers"] = "cpu memory"
		if got, err := (groups{hostOf(t, tt.files)}).Stalled("g"); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, err, tt.want, tt.err)
		}
	}
}

// TestClaimOf: the memory nodes of a group are known even if its limit is not.
func TestClaimOf(t *testing.T) {
	t.Parallel()
	var none cpuset.Set
	nodes := none.Add(1)
	for name, tt := range map[string]struct {
		limit, current string
		want           locality.Claim
		err            error
	}{
		"limited":            {"300\n", "100\n", locality.Claim{Nodes: nodes, Bytes: 200}, nil},
		"above its limit":    {"100\n", "300\n", locality.Claim{Nodes: nodes}, nil},
		"not limited":        {"max\n", "100\n", locality.Claim{Nodes: nodes}, nil},
		"malformed":          {"much\n", "100\n", locality.Claim{Nodes: nodes}, cgroup.ErrMalformed},
		"its use, malformed": {"300\n", "much\n", locality.Claim{Nodes: nodes, Bytes: 300}, cgroup.ErrMalformed},
	} {
		host := hostOf(t, map[string]string{
			"proc/self/mountinfo": unified, "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory",
			"sys/fs/cgroup/g/cpuset.mems.effective": "1\n", "sys/fs/cgroup/g/memory.max": tt.limit, "sys/fs/cgroup/g/memory.current": tt.current,
			"sys/fs/cgroup/g/memory.numa_stat": "anon N0=0\n",
		})
		if got, err := ClaimOf(host, "g"); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, err, tt.want, tt.err)
		}
	}
}

// TestUnseenProcesses: the kernel lists a process in an unrelated pid namespace as 0. A group of such processes must
// not look like a group with nothing to move.
func TestUnseenProcesses(t *testing.T) {
	t.Parallel()
	host := hostOf(t, map[string]string{
		"proc/self/mountinfo":                     unified,
		"sys/fs/cgroup/cgroup.controllers":        "cpu",
		"sys/fs/cgroup/seen/cgroup.procs":         "7\n",
		"sys/fs/cgroup/seen/below/cgroup.procs":   "8\n",
		"sys/fs/cgroup/unseen/cgroup.procs":       "0\n0\n",
		"sys/fs/cgroup/partly/cgroup.procs":       "7\n",
		"sys/fs/cgroup/partly/below/cgroup.procs": "0\n",
	})
	pids, err := groups{host}.Processes("seen")
	if diff := cmp.Diff([]int{7, 8}, pids); diff != "" || err != nil {
		t.Errorf("seen: %v (-want +got):\n%s", err, diff)
	}
	for _, group := range []string{"unseen", "partly"} {
		if pids, err := (groups{host}).Processes(group); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v, %v, want %v", group, pids, err, fs.ErrPermission)
		}
	}
}
