package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/test/cluster/local"
)

// list is a set of CPUs or memory nodes. Its parser is independent of Berth's.
type list map[int]bool

// parseList reads the kernel's list format and ignores parts that it cannot read.
func parseList(text string) list {
	l := list{}
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, ranged := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if ranged && err == nil {
			to, err = strconv.Atoi(last)
		}
		for i := from; err == nil && i <= to; i++ {
			l[i] = true
		}
	}
	return l
}

func (l list) equal(other list) bool { return maps.Equal(l, other) }

func (l list) in(other list) bool {
	for i := range l {
		if !other[i] {
			return false
		}
	}
	return true
}

func (l list) meets(other list) bool {
	for i := range l {
		if other[i] {
			return true
		}
	}
	return false
}

func (l list) with(other list) list {
	all := maps.Clone(l)
	maps.Copy(all, other)
	return all
}

func (l list) String() string {
	if len(l) == 0 {
		return "none"
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(l))), "[]"), " ", ",")
}

// online returns the online CPUs of this machine.
func online() list {
	content, _ := os.ReadFile("/sys/devices/system/cpu/online") // The file exists.
	return parseList(string(content))
}

// group is the control group of one container.
type group struct {
	pod string // The UID of the pod, in the kubelet's form.
	id  string // The id of the container or sandbox.
	dir string // Path below the root of each hierarchy.
}

// controller returns the mount point of a version 1 controller, or of the only hierarchy.
func controller(name, knob string) string {
	if dir := "/sys/fs/cgroup/" + name; exists(dir + local.Group + "/" + knob) {
		return dir
	}
	return "/sys/fs/cgroup"
}

func cpusets() string { return controller("cpuset", "cpuset.cpus") }
func cpus() string    { return controller("cpu", "cpu.cfs_quota_us") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// podGroups returns the directories of the groups of pods.
func podGroups() []string {
	var all []string
	for _, class := range []string{"", "burstable", "besteffort"} {
		pods, _ := filepath.Glob(filepath.Join(cpusets()+local.Group, "kubepods", class, "pod*")) // A valid pattern.
		all = append(all, pods...)
	}
	return all
}

// groups returns the groups of all containers and sandboxes, running or ended.
func groups() []group {
	var all []group
	for _, pod := range podGroups() {
		entries, _ := os.ReadDir(pod) // A removed group has none.
		for _, e := range entries {
			if len(e.Name()) == 64 {
				uid := strings.TrimPrefix(filepath.Base(pod), "pod")
				all = append(all, group{pod: uid, id: e.Name(), dir: strings.TrimPrefix(filepath.Join(pod, e.Name()), cpusets())})
			}
		}
	}
	return all
}

// read returns a file of the group, empty if the group is gone.
func read(root, dir, name string) string {
	content, _ := os.ReadFile(filepath.Join(root+dir, name)) // The group may disappear at any moment.
	return strings.TrimSpace(string(content))
}

// pids returns the processes in the group.
func (g group) pids() []string { return strings.Fields(read(cpusets(), g.dir, "cgroup.procs")) }

// masks returns the distinct sets of CPUs and memory nodes that processes of the group may use; with threads, the sets
// of every thread. It ignores processes of runc before they become the container's.
func (g group) masks(threads bool) (cpus, mems []list) {
	for _, pid := range g.pids() {
		tasks := []string{filepath.Join("/proc", pid)}
		if threads {
			tasks, _ = filepath.Glob(filepath.Join("/proc", pid, "task", "*")) // A valid pattern.
		}
		for _, task := range tasks {
			content, _ := os.ReadFile(filepath.Join(task, "status")) // It may have ended.
			status := string(content)
			if status == "" || strings.HasPrefix(status, "Name:\trunc") || strings.Contains(status, "\nState:\tZ") {
				continue
			}
			cpus = addTo(cpus, field(status, "Cpus_allowed_list:"))
			mems = addTo(mems, field(status, "Mems_allowed_list:"))
		}
	}
	return cpus, mems
}

func addTo(all []list, text string) []list {
	l := parseList(text)
	if len(l) == 0 || slices.ContainsFunc(all, l.equal) {
		return all
	}
	return append(all, l)
}

func field(status, name string) string {
	_, rest, _ := strings.Cut(status, "\n"+name+"\t")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// quota returns the group's quota in microseconds, "max" for none.
func quota(dir string) string {
	first, _, _ := strings.Cut(read(cpus(), dir, "cpu.max"), " ")
	return atPeriod(dir, strings.Replace(cmp.Or(read(cpus(), dir, "cpu.cfs_quota_us"), first), "-1", "max", 1))
}

// burst returns the group's CPU burst in microseconds.
func burst(dir string) string {
	return atPeriod(dir, cmp.Or(read(cpus(), dir, "cpu.cfs_burst_us"), read(cpus(), dir, "cpu.max.burst")))
}

// atPeriod converts a quota or burst of the group to the kubelet's period. A kernel that gets too little CPU doubles
// the period, quota and burst, which changes no rate.
func atPeriod(dir, micros string) string {
	_, period, _ := strings.Cut(read(cpus(), dir, "cpu.max"), " ")
	value := cgroup.Value(micros + " " + cmp.Or(read(cpus(), dir, "cpu.cfs_period_us"), period))
	at, _, _ := strings.Cut(string(cgroup.ScaleTo(value, 100_000)), " ")
	return at
}

// bundle is the configuration that containerd wrote for a container. It includes the NRI answer.
type bundle struct {
	made    time.Time // When containerd wrote it.
	name    string    // The container's name, "" for a sandbox.
	sandbox bool
	cpus    list
	mems    list
	quota   int64
}

// readBundle reads the bundle of a container, which is missing once the container is gone.
func readBundle(id string) (bundle, bool) {
	file := local.NodePath("/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + id + "/config.json")
	content, err := os.ReadFile(file)
	var config struct {
		Annotations map[string]string
		Linux       struct {
			Resources struct {
				CPU struct {
					Cpus, Mems string
					Quota      int64
				}
			}
		}
	}
	if err != nil || json.Unmarshal(content, &config) != nil {
		return bundle{}, false
	}
	info, err := os.Stat(file)
	if err != nil {
		return bundle{}, false
	}
	c := config.Linux.Resources.CPU
	return bundle{
		made:    info.ModTime(),
		name:    config.Annotations["io.kubernetes.cri.container-name"],
		sandbox: config.Annotations["io.kubernetes.cri.container-type"] == "sandbox",
		cpus:    parseList(c.Cpus), mems: parseList(c.Mems), quota: c.Quota,
	}, true
}
