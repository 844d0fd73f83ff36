package drift

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// ErrNotMounted means that the state directory of a pod is not the host's, so nothing is known of the host's profile.
var ErrNotMounted = errors.New("not a directory of the host (hostPath), so it is unknown which profile the host has")

// Spaces tells which of its namespaces the agent shares with the host. Each holds settings of its own.
type Spaces struct{ Network, IPC, Names, PIDs, Users bool }

// SpacesOf returns the namespaces that this process shares with the host below root. A namespace counts as the host's
// if it is the kernel's first. Below another root, or nil, none counts. For the network, a file tells it that only the
// first network has (net_core_table in net/core/sysctl_net_core.c): before Linux 6.18 its inode is not fixed.
func SpacesOf(root *hostfs.Root) Spaces {
	if root == nil || root.Path() != "/" {
		return Spaces{}
	}
	_, err := fs.Stat(root.FS(), "proc/sys/net/core/dev_weight")
	return Spaces{
		Network: err == nil, IPC: kernel.SharesIPC(), Names: kernel.SharesNames(), PIDs: kernel.SeesEachThread(), Users: kernel.SharesUsers(),
	}
}

// Unseen is a setting of the committed profile that the agent's pod does not show. Its JSON is a stable contract.
type Unseen struct {
	Knob     string `json:"knob"`
	Instance string `json:"instance"`
	File     string `json:"file"`
	// Why says what the pod lacks.
	Why string `json:"why"`
}

// vantage is the place from which the agent looks at its host. The zero vantage is the host itself.
type vantage struct {
	pod    bool
	spaces Spaces
	mounts []*mountinfo.Info
	// onTrial is true while only the files of the boot loader tell whether the next boot has the boot arguments.
	onTrial bool
}

// pod returns the vantage of an agent in a cluster.
func (w *Watch) pod() (vantage, error) {
	v := vantage{pod: true, spaces: w.opts.Spaces}
	text, err := w.opts.Root.ReadFile("/proc/self/mountinfo")
	if err == nil {
		v.mounts, err = mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	}
	if err != nil {
		return v, fmt.Errorf("the mounts of the agent: %w", err)
	}
	return v, nil
}

// at returns the mount that contains a path, nil if none is known.
func (v vantage) at(name string) (found *mountinfo.Info) {
	for _, m := range v.mounts {
		inside := m.Mountpoint == "/" || name == m.Mountpoint || strings.HasPrefix(name, m.Mountpoint+"/")
		if inside && (found == nil || len(m.Mountpoint) >= len(found.Mountpoint)) {
			found = m // the later of two mounts at one place applies
		}
	}
	return found
}

// isForeign reports whether a state directory is the container's own, or a volume of the pod.
func (v vantage) isForeign(dir string) bool {
	m := v.at(dir)
	return m != nil && (m.Mountpoint == "/" && m.FSType == "overlay" || strings.Contains(m.Root, "/volumes/kubernetes.io~"))
}

// hides returns why the pod does not show a setting of the host, "" if it does.
func (v vantage) hides(row tune.Verified) string {
	switch {
	case !v.pod, row.State == tune.Dormant: // not in force, wherever the agent is
		return ""
	case v.onTrial && row.File == cmdline && row.State == tune.Drift:
		return "the files of the boot loader, which say what the next boot has, are not in the pod"
	case !v.spaces.PIDs && (row.Knob == tune.UnitPolicy || row.Knob == tune.UnitSlice):
		return "threads of the host have no ids in the pod, without hostPID"
	}
	why := cmp.Or(v.spaces.hides(row.File), v.covers(row.File))
	if why == "" && row.State == tune.Unreadable {
		why = "the agent may not read it in the pod"
	}
	return why
}

// cmdline is the file of boot arguments.
const cmdline = "/proc/cmdline"

// hides returns why a file shows a setting of the pod's own, "" if it does not.
func (s Spaces) hides(file string) string {
	key, sysctl := strings.CutPrefix(file, "/proc/sys/")
	switch {
	case !s.Network && (sysctl && strings.HasPrefix(key, "net/") || strings.HasPrefix(file, "/sys/class/net/")):
		return "the pod has a network of its own"
	case !sysctl:
		return ""
	case !s.IPC && ofIPC(key):
		return "the pod has an IPC namespace of its own"
	case !s.Names && (key == "kernel/hostname" || key == "kernel/domainname"):
		return "the pod has names of its own"
	case !s.PIDs && slices.Contains([]string{"kernel/pid_max", "kernel/ns_last_pid", "kernel/cad_pid", "vm/memfd_noexec"}, key):
		return "the pod has process ids of its own"
	case !s.Users && strings.HasPrefix(key, "user/"):
		return "the pod has a user namespace of its own"
	}
	return ""
}

// ofIPC reports whether a sysctl belongs to an ipc namespace (ipc/ipc_sysctl.c and ipc/mq_sysctl.c).
func ofIPC(key string) bool {
	name, ofKernel := strings.CutPrefix(key, "kernel/")
	return strings.HasPrefix(key, "fs/mqueue/") || ofKernel && (name == "auto_msgmni" || slices.ContainsFunc([]string{"shm", "msg", "sem"}, func(kind string) bool {
		return strings.HasPrefix(name, kind)
	}))
}

// covers returns why another file, or none, is at the path of a setting: the pod lacks the file system of the setting,
// or its runtime covers the file.
func (v vantage) covers(file string) string {
	for _, of := range []struct{ dir, kind string }{
		{"/proc/sys/fs/binfmt_misc", "binfmt_misc"},
		{"/proc", "proc"},
		{"/sys/kernel/debug", "debugfs"},
		{"/sys/fs/cgroup", "cgroup"}, // or cgroup2
		{"/sys", "sysfs"},
	} {
		if !strings.HasPrefix(file, of.dir+"/") {
			continue
		}
		if m := v.at(path.Clean(file)); m != nil && strings.HasPrefix(m.FSType, of.kind) {
			return ""
		}
		return "the pod has no " + of.kind + " there"
	}
	return ""
}

// unseen names the settings that the pod does not show, by the reason, and of each reason the first three.
func (r *Report) unseen() string {
	const named = 3
	var reasons []string
	names := map[string][]string{}
	for _, u := range r.Unseen {
		if names[u.Why] == nil {
			reasons = append(reasons, u.Why)
		}
		names[u.Why] = append(names[u.Why], tune.Name(u.Knob, u.Instance))
	}
	for i, why := range reasons {
		all := names[why]
		if more := len(all) - named; more > 0 {
			all = append(slices.Clone(all[:named]), fmt.Sprintf("%d more", more))
		}
		reasons[i] = fmt.Sprintf("%s (%s)", strings.Join(all, ", "), why)
	}
	return strings.Join(reasons, "; ")
}
