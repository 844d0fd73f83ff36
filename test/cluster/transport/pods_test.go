package transport

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// pod is a sandbox, with the configuration of its containers.
type pod struct {
	n      *node
	id     string
	uid    string
	config *runtime.PodSandboxConfig
	made   uint32 // number of containers created
}

// pod creates a pod with the host's network, as the kubelet does.
func (n *node) pod(name string) *pod {
	n.t.Helper()
	n.pods++
	p := &pod{n: n, uid: fmt.Sprintf("uid-%d", n.pods)}
	logs := n.path("logs-" + p.uid)
	if err := os.Mkdir(logs, 0o755); err != nil {
		n.t.Fatal(err)
	}
	p.config = &runtime.PodSandboxConfig{
		Metadata:     &runtime.PodSandboxMetadata{Name: name, Namespace: "test", Uid: p.uid},
		LogDirectory: logs,
		Annotations:  map[string]string{"berth.test/name": name},
		Labels: map[string]string{
			"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "test", "io.kubernetes.pod.uid": p.uid,
		},
		Linux: &runtime.LinuxPodSandboxConfig{
			CgroupParent: "/" + n.group + "/kubepods/pod" + p.uid,
			SecurityContext: &runtime.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE},
			},
		},
	}
	made, err := n.cri.RunPodSandbox(n.t.Context(), &runtime.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		n.t.Fatalf("pod %s: %v", name, err)
	}
	p.id = made.GetPodSandboxId()
	return p
}

// create creates a container with a limit of one CPU.
func (p *pod) create(name string) (string, error) {
	p.made++
	made, err := p.n.cri.CreateContainer(p.n.t.Context(), &runtime.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: name, Attempt: p.made},
			Image:    &runtime.ImageSpec{Image: "berth.test/mask:1"},
			LogPath:  fmt.Sprintf("%s-%d.log", name, p.made),
			Labels:   p.config.GetLabels(),
			Linux: &runtime.LinuxContainerConfig{Resources: &runtime.LinuxContainerResources{
				CpuPeriod: 100_000, CpuQuota: 100_000, CpuShares: 1024,
			}},
		},
	})
	return made.GetContainerId(), err
}

// started is a container that runs.
type started struct {
	id    string
	pid   int
	group *cgroup.Group
	cpus  string // as printed by its first instructions
	mems  string
}

// start creates and starts a container and waits for its first output.
func (p *pod) start(name string) started {
	t := p.n.t
	t.Helper()
	id, err := p.create(name)
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return p.begin(name, id)
}

// begin starts a created container, and waits for its first output.
func (p *pod) begin(name, id string) started {
	t := p.n.t
	t.Helper()
	if _, err := p.n.cri.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id}); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	c := started{id: id, pid: p.n.pid(id)}
	path, err := p.n.host.PathOf(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	if c.group, err = p.n.host.Group(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.group.Close() })
	eventually(t, "the first act of "+name, func() bool {
		said, _ := os.ReadFile(filepath.Join(p.config.GetLogDirectory(), fmt.Sprintf("%s-%d.log", name, p.made)))
		c.cpus, c.mems = after(string(said), "Cpus_allowed_list:"), after(string(said), "Mems_allowed_list:")
		return c.cpus != "" && c.mems != ""
	})
	return c
}

// after returns the text after a key, in plain text or in a CRI log.
func after(text, key string) string {
	for line := range strings.Lines(text) {
		if _, value, ok := strings.Cut(line, key); ok && strings.HasSuffix(line, "\n") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// pid asks the runtime for the first process of a container.
func (n *node) pid(id string) int {
	n.t.Helper()
	answer, err := n.cri.ContainerStatus(n.t.Context(), &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		n.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(answer.GetInfo()["info"], `"pid":`)
	pid := 0
	if _, err := fmt.Sscanf(rest, "%d", &pid); err != nil || pid <= 0 {
		n.t.Fatalf("process of %s: %v", id, err)
	}
	return pid
}

// allowed returns the CPUs that a process may use now.
func allowed(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return after(string(status), "Cpus_allowed_list:")
}

// knob returns the value of a setting of a container's group.
func (c started) knob(t *testing.T, k cgroup.Knob) cgroup.Value {
	t.Helper()
	v, err := c.group.Read(k)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// set parses a valid CPU list.
func set(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// write writes to a container's group directly, without the runtime, on cgroup v1 or v2.
func (c started) write(t *testing.T, controller, file, value, unified, unifiedValue string) {
	t.Helper()
	name := filepath.Join("/sys/fs/cgroup", c.group.Path(), unified)
	if _, err := os.Stat(name); err != nil {
		name, unifiedValue = filepath.Join("/sys/fs/cgroup", controller, c.group.Path(), file), value
	}
	if err := os.WriteFile(name, []byte(unifiedValue), 0); err != nil {
		t.Fatal(err)
	}
}

// online returns all CPUs of this machine, and the remaining CPUs when a container is pinned to CPU 1, as kernel lists.
func online(t *testing.T) (all, rest string) {
	t.Helper()
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		t.Fatal(err)
	}
	cpus := set(t, strings.TrimSpace(string(text)))
	if !cpus.Contains(0) || !cpus.Contains(1) {
		t.Skipf("needs CPUs 0 and 1, has %s", cpus)
	}
	return cpus.String(), cpus.Remove(1).String()
}
