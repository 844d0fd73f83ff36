package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
)

// Managed is a kernel file that Berth set, and the value.
type Managed struct{ File, Desired string }

// Sample is the files of a host at one moment. It is immutable.
type Sample struct {
	files   map[string]string // by name without leading slash
	denied  map[string]string // by file, why it could not be read
	machine *topology.Topology
	host    string // the host's name, which a bundle must not have
}

// fixed returns the files with a fixed name, and a filter for their lines, nil for all lines.
func fixed() map[string]func(string) bool {
	all := map[string]func(string) bool{
		statFile:                   starting("cpu", "ctxt", "procs_"),
		"proc/cpuinfo":             starting("flags", "Features"),
		"etc/default/irqbalance":   starting("IRQBALANCE_BANNED"),
		"etc/sysconfig/irqbalance": starting("IRQBALANCE_BANNED"),
		mountsFile:                 isKept,
		"proc/self/stat":           nil,
		managedFile:                nil,
	}
	for _, name := range []string{
		uptimeFile, loadFile, interruptsFile, softirqsFile, softnetFile,
		"proc/pressure/io", "proc/pressure/memory",
		schedExtFile, lockdownFile, smtFile, onlineFile,
	} {
		all[name] = nil
	}
	for _, place := range slices.Concat(placesOf(sliceKnob), placesOf(migrationKnob)) {
		all[local(place.File)] = nil
		if shown := place.Shown; shown != nil {
			all[local(shown.File)] = func(line string) bool { return strings.Contains(line, shown.Line) }
		}
	}
	return all
}

// managedFile is the file of a sample that has what Berth set. No kernel has it.
const managedFile = "proc/berth/managed"

// mountsFile has the mounts. A sample has only the mounts of cgroups and debugfs, not those of users.
const mountsFile = "proc/self/mountinfo"

func isKept(line string) bool {
	return strings.Contains(line, " - cgroup") || strings.Contains(line, " - debugfs ")
}

// starting returns a filter for lines that begin with one of the words.
func starting(words ...string) func(string) bool {
	return func(line string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(line, w) })
	}
}

// Take reads a host, live or recorded. An unreadable file is noted in the sample and is not an error; a tree without
// CPUs is topology.ErrNoMachine. unread is why it is unknown what Berth set, or nil.
func Take(root *hostfs.Root, managed []Managed, unread error) (*Sample, error) {
	r := reader{root: root, Sample: &Sample{files: map[string]string{}, denied: map[string]string{}}}
	for name, only := range fixed() {
		r.keep(name, only)
	}
	name, err := root.ReadFile("proc/sys/kernel/hostname")
	if err == nil {
		r.host = strings.TrimSpace(string(name))
	}
	r.managed(managed)
	if unread != nil {
		r.denied[managedFile] = unread.Error()
	}
	r.threads()
	r.groups()
	r.each("proc/irq", "effective_affinity_list")
	r.each("sys/devices/system/node", "numastat", "meminfo")
	for _, cpu := range r.each("sys/devices/system/cpu", "thermal_throttle/core_throttle_count", "thermal_throttle/package_throttle_count") {
		r.each(cpu+"/cpuidle", "name", "latency", "usage", "above")
	}
	for _, nic := range r.each("sys/class/net", "device/numa_node") {
		for _, irq := range r.list(nic + "/device/msi_irqs") {
			r.keep(nic+"/device/msi_irqs/"+irq, nil)
		}
	}
	r.machine, err = topology.Discover(r)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	return r.Sample, nil
}

// reader fills a sample. As a file system, it also adds what is read through it.
type reader struct {
	*Sample
	root *hostfs.Root
}

// Open opens a file without adding it to the sample.
func (r reader) Open(name string) (fs.File, error) {
	return r.root.FS().Open(name) //nolint:wrapcheck // a file system hands its errors on
}

// ReadFile reads a file and adds it to the sample.
func (r reader) ReadFile(name string) ([]byte, error) {
	data, err := r.root.ReadFile(name)
	if err == nil {
		r.files[name] = string(data)
	}
	return data, err
}

// keep adds the filtered lines of a file, if it exists.
func (r reader) keep(name string, only func(string) bool) {
	data, err := r.root.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		r.denied[name] = "not permitted to this user"
	case err != nil: // does not exist, or not any more
	case only == nil:
		r.files[name] = string(data)
	default:
		r.files[name] = filtered(string(data), only)
	}
}

// filtered returns the lines that the filter accepts.
func filtered(text string, only func(string) bool) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if only(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// list returns the names in a directory, none if there is no such directory.
func (r reader) list(dir string) []string {
	entries, err := r.root.ReadDir(dir)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// each adds some files of every directory in dir, and returns those directories.
func (r reader) each(dir string, files ...string) []string {
	var all []string
	for _, name := range r.list(dir) {
		name = dir + "/" + name
		all = append(all, name)
		for _, file := range files {
			r.keep(name+"/"+file, nil)
		}
	}
	return all
}

// managed adds what Berth set, and the present content of these files.
func (r reader) managed(all []Managed) {
	for _, m := range all {
		r.files[managedFile] += strings.TrimPrefix(m.File, "/") + " " + m.Desired + "\n"
	}
	for line := range strings.Lines(r.files[managedFile]) {
		file, _, _ := strings.Cut(line, " ")
		r.keep(file, nil)
	}
}

// threads adds the scheduler's numbers of all threads except this program's.
func (r reader) threads() {
	self, _, _ := strings.Cut(r.files["proc/self/stat"], " ")
	delete(r.files, "proc/self/stat")
	for _, pid := range r.list("proc") {
		if _, err := strconv.Atoi(pid); err != nil || pid == self {
			continue
		}
		for _, tid := range r.list("proc/" + pid + "/task") {
			r.thread("proc/" + pid + "/task/" + tid)
		}
	}
}

func (r reader) thread(dir string) {
	data, err := r.root.ReadFile(dir + "/stat")
	if err != nil {
		return // the thread has ended
	}
	stat := scrubStat(string(data))
	r.files[dir+"/stat"] = stat
	r.keep(dir+"/schedstat", nil)
	t, _ := parseThreadStat(stat)
	if !t.kernel {
		r.keep(dir+"/status", starting("Cpus_allowed_list", "voluntary_ctxt", "nonvoluntary_ctxt"))
	}
	if t.state == 'D' {
		r.keep(dir+"/wchan", nil)
	}
}

// groups adds limits, counters and CPU sets of all control groups.
func (r reader) groups() {
	host, err := cgroup.Open(r.root)
	if err != nil {
		return // the checks that need groups report it
	}
	seen := map[string]bool{}
	for _, controller := range []cgroup.Controller{cgroup.CPU, cgroup.CPUSet} {
		hier, err := host.Hierarchy(controller)
		if err != nil || seen[hier.Mount] {
			continue
		}
		seen[hier.Mount] = true
		top := strings.TrimPrefix(hier.Mount, "/")
		r.keep(top+"/cgroup.controllers", nil)
		r.keep(top+"/cpuset.cpus.isolated", nil)
		_ = fs.WalkDir(r.root.FS(), top, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				r.group(name)
			}
			return nil // skip a group that was removed
		})
	}
}

// groupFiles returns the files of a group, by the names of v1 and v2.
func groupFiles() []string {
	return []string{
		"cpu.stat", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us",
		"cpuset.cpus", "cpuset.mems", "cpuset.cpus.partition", "cgroup.events",
		"cpuset.cpus.effective", "cpuset.mems.effective", "cpuset.effective_cpus", "cpuset.effective_mems",
	}
}

func (r reader) group(dir string) {
	for _, file := range groupFiles() {
		r.keep(path.Join(dir, file), nil)
	}
	if data, err := r.root.ReadFile(path.Join(dir, "tasks")); err == nil && len(data) > 0 { // v1
		r.files[path.Join(dir, "cgroup.events")] = "populated 1\n"
	}
}
