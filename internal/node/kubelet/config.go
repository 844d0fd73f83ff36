package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	// fileLimit is the largest configuration or state file, in bytes.
	fileLimit = 4 << 20
	// stateFile is the state file of the CPU manager, in the kubelet's root directory.
	stateFile = "cpu_manager_state"
	// memoryStateFile is the state file of the memory manager.
	memoryStateFile = "memory_manager_state"
	// noMemoryManager is the policy of a memory manager that sets nothing.
	noMemoryManager = "None"
)

// Config is the part of the kubelet's configuration (KubeletConfiguration, kubelet.config.k8s.io/v1beta1) that concerns
// CPUs and groups. An empty string and a nil pointer mean unknown.
type Config struct {
	// CPUManagerPolicy is none or static.
	CPUManagerPolicy string `json:"cpuManagerPolicy"`
	// MemoryManagerPolicy is None or Static.
	MemoryManagerPolicy string `json:"memoryManagerPolicy"`
	// TopologyManagerPolicy is none, best-effort, restricted or single-numa-node.
	TopologyManagerPolicy string `json:"topologyManagerPolicy"`
	// ReservedSystemCPUs is empty if none are reserved, or if that is unknown.
	ReservedSystemCPUs cpuset.Set `json:"-"`
	// CgroupDriver is cgroupfs or systemd, and CgroupRoot the group in which the kubelet creates kubepods.
	CgroupDriver string `json:"cgroupDriver"`
	CgroupRoot   string `json:"cgroupRoot"`
	// CgroupsPerQOS reports whether pods have groups at all.
	CgroupsPerQOS *bool `json:"cgroupsPerQOS"`
	// CPUCFSQuota reports whether CPU limits are enforced at all, and CPUCFSQuotaPeriod is the period of their quotas,
	// for example "100ms".
	CPUCFSQuota       *bool  `json:"cpuCFSQuota"`
	CPUCFSQuotaPeriod string `json:"cpuCFSQuotaPeriod"`
	// ContainerRuntimeEndpoint is the runtime's endpoint, for example unix:///run/containerd/containerd.sock.
	ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
}

// fields are the fields of the kubelet's document.
type fields struct {
	Config

	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Reserved   string `json:"reservedSystemCPUs"`
}

func (f fields) config() (Config, error) {
	reserved, err := cpuset.Parse(f.Reserved)
	if err != nil {
		return Config{}, fmt.Errorf("reservedSystemCPUs: %w: %w", ErrMalformed, err)
	}
	f.ReservedSystemCPUs = reserved
	return f.Config, nil
}

// ReadConfig reads the kubelet's configuration file (its flag --config). A field that the file lacks is unknown: the
// kubelet also has defaults, flags, and a directory of further files. The errors are ErrNoState, ErrReplaced,
// ErrMalformed, ErrTooLarge and read errors.
func ReadConfig(name string) (Config, error) {
	content, err := read(name)
	if err != nil {
		return Config{}, err
	}
	text, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w: %w", name, ErrMalformed, err)
	}
	var f fields
	if err := json.Unmarshal(text, &f); err != nil {
		return Config{}, fmt.Errorf("%s: %w: %w", name, ErrMalformed, err)
	}
	if f.Kind != "KubeletConfiguration" || f.APIVersion != "kubelet.config.k8s.io/v1beta1" {
		return Config{}, fmt.Errorf("%s: kind %q of %q: %w", name, f.Kind, f.APIVersion, ErrMalformed)
	}
	config, err := f.config()
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", name, err)
	}
	return config, nil
}

// State is the CPU manager's state on disk (cpu_manager_state), with the policy of the memory manager
// (memory_manager_state).
type State struct {
	// Policy is the CPU manager's policy, none or static. It is the policy of the kubelet's last start: a changed
	// configuration takes effect at the next.
	Policy string
	// MemoryPolicy is the memory manager's policy, None or Static; "" without a file.
	MemoryPolicy string
	// Shared are the CPUs of containers without exclusive CPUs, under the policy static.
	Shared cpuset.Set
	// Exclusive are the exclusive CPUs of containers.
	Exclusive cpuset.Set
}

// ReadState reads the state of the CPU manager and of the memory manager in the kubelet's root directory (its flag
// --root-dir, by default /var/lib/kubelet). The errors are those of ReadConfig; ErrNoState concerns the CPU manager's
// file. A replaced state of a Static memory manager is still used, for its policy.
func ReadState(dir string) (State, error) {
	name := filepath.Join(dir, stateFile)
	var f struct {
		Policy  string                       `json:"policyName"`
		Shared  string                       `json:"defaultCpuSet"`
		Entries map[string]map[string]string `json:"entries"`
	}
	if err := readState(name, &f, &f.Policy); err != nil {
		return State{}, err
	}
	state := State{Policy: f.Policy}
	var memory struct {
		Policy string `json:"policyName"`
	}
	err := readState(filepath.Join(dir, memoryStateFile), &memory, &memory.Policy)
	switch sets := memory.Policy != "" && memory.Policy != noMemoryManager; {
	case err == nil, errors.Is(err, ErrNoState):
	case errors.Is(err, ErrReplaced) && sets: // every pod replaces the file then
	default:
		return State{}, err
	}
	state.MemoryPolicy = memory.Policy
	if state.Shared, err = cpuset.Parse(f.Shared); err != nil {
		return State{}, fmt.Errorf("%s: defaultCpuSet: %w: %w", name, ErrMalformed, err)
	}
	for pod, containers := range f.Entries {
		for container, list := range containers {
			cpus, err := cpuset.Parse(list)
			if err != nil {
				return State{}, fmt.Errorf("%s: pod %q container %q: %w: %w", name, pod, container, ErrMalformed, err)
			}
			state.Exclusive = state.Exclusive.Union(cpus)
		}
	}
	return state, nil
}

// readState reads a state file into value; policy points to its policy name. With ErrReplaced, value has the content of
// the replaced file.
func readState(name string, value any, policy *string) error {
	content, err := read(name)
	if err != nil && !errors.Is(err, ErrReplaced) {
		return err
	}
	replaced := err
	if err := json.Unmarshal(content, value); err != nil {
		return errors.Join(replaced, fmt.Errorf("%s: %w: %w", name, ErrMalformed, err))
	}
	if *policy == "" {
		return errors.Join(replaced, fmt.Errorf("%s: no policyName: %w", name, ErrMalformed))
	}
	return replaced
}

// read reads a file of the kubelet. The kubelet writes a new file and renames it, and a mount of the old file still
// refers to the old file. So a file without a link was replaced: read returns its content with ErrReplaced.
func read(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	case err != nil:
		return nil, err //nolint:wrapcheck // says the operation and the path
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink == 0 {
		content, err := readFile(name, fileLimit)
		return content, errors.Join(fmt.Errorf("%s: %w", name, ErrReplaced), err)
	}
	return readFile(name, fileLimit)
}
