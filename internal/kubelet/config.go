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

	"github.com/berth-project/berth/internal/cpuset"
)

const (
	// fileLimit is the largest configuration or state file, in bytes.
	fileLimit = 4 << 20
	// stateFile is where the CPU manager keeps its state, in the kubelet's root
	// directory.
	stateFile = "cpu_manager_state"
	// memoryStateFile is where the memory manager does.
	memoryStateFile = "memory_manager_state"
	// noMemoryManager is the policy of a memory manager that sets nothing.
	noMemoryManager = "None"
)

// Config is what of the kubelet's configuration (KubeletConfiguration,
// kubelet.config.k8s.io/v1beta1) concerns CPUs and groups. A string that is ""
// and a pointer that is nil are not known.
type Config struct {
	// CPUManagerPolicy is none or static.
	CPUManagerPolicy string
	// MemoryManagerPolicy is None or Static.
	MemoryManagerPolicy string
	// TopologyManagerPolicy is none, best-effort, restricted or
	// single-numa-node.
	TopologyManagerPolicy string
	// ReservedSystemCPUs is empty when none are, or when that is not known.
	ReservedSystemCPUs cpuset.Set
	// CgroupDriver is cgroupfs or systemd, and CgroupRoot the group that the
	// kubelet makes kubepods in.
	CgroupDriver, CgroupRoot string
	// CgroupsPerQOS says whether there are groups for pods at all.
	CgroupsPerQOS *bool
	// CPUCFSQuota says whether CPU limits are enforced at all, and
	// CPUCFSQuotaPeriod the period of their quotas, as in "100ms".
	CPUCFSQuota       *bool
	CPUCFSQuotaPeriod string
	// ContainerRuntimeEndpoint is the runtime's, as in
	// unix:///run/containerd/containerd.sock.
	ContainerRuntimeEndpoint string
}

// fields are the names in the kubelet's document.
type fields struct {
	APIVersion               string `json:"apiVersion"`
	Kind                     string `json:"kind"`
	CPUManagerPolicy         string `json:"cpuManagerPolicy"`
	MemoryManagerPolicy      string `json:"memoryManagerPolicy"`
	TopologyManagerPolicy    string `json:"topologyManagerPolicy"`
	ReservedSystemCPUs       string `json:"reservedSystemCPUs"`
	CgroupDriver             string `json:"cgroupDriver"`
	CgroupRoot               string `json:"cgroupRoot"`
	CgroupsPerQOS            *bool  `json:"cgroupsPerQOS"`
	CPUCFSQuota              *bool  `json:"cpuCFSQuota"`
	CPUCFSQuotaPeriod        string `json:"cpuCFSQuotaPeriod"`
	ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
}

func (f fields) config() (Config, error) {
	reserved, err := cpuset.Parse(f.ReservedSystemCPUs)
	if err != nil {
		return Config{}, fmt.Errorf("reservedSystemCPUs: %w: %w", ErrMalformed, err)
	}
	return Config{
		CPUManagerPolicy:         f.CPUManagerPolicy,
		MemoryManagerPolicy:      f.MemoryManagerPolicy,
		TopologyManagerPolicy:    f.TopologyManagerPolicy,
		ReservedSystemCPUs:       reserved,
		CgroupDriver:             f.CgroupDriver,
		CgroupRoot:               f.CgroupRoot,
		CgroupsPerQOS:            f.CgroupsPerQOS,
		CPUCFSQuota:              f.CPUCFSQuota,
		CPUCFSQuotaPeriod:        f.CPUCFSQuotaPeriod,
		ContainerRuntimeEndpoint: f.ContainerRuntimeEndpoint,
	}, nil
}

// ReadConfig reads the kubelet's configuration file (its flag --config). What
// is not in it is not known: the kubelet has defaults, flags, and a directory
// of further files. The errors are ErrNoState, ErrReplaced, ErrMalformed,
// ErrTooLarge and those of reading.
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

// State is what the CPU manager keeps on disk (cpu_manager_state), and of the memory
// manager (memory_manager_state) its policy.
type State struct {
	// Policy is the CPU manager's, none or static. It is what the kubelet last
	// ran with: a changed configuration takes effect when it starts again.
	Policy string
	// MemoryPolicy is the memory manager's, None or Static; "" where it has no file.
	MemoryPolicy string
	// Shared are the CPUs of containers without exclusive CPUs, with the
	// policy static.
	Shared cpuset.Set
	// Exclusive are the CPUs that containers have of their own.
	Exclusive cpuset.Set
}

// ReadState reads the state of the CPU manager and of the memory manager in the
// kubelet's root directory (its flag --root-dir, by default /var/lib/kubelet). The
// errors are those of ReadConfig; ErrNoState is about the CPU manager's. Of a memory manager
// that is Static a state that was replaced counts all the same, for its policy.
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
	case errors.Is(err, ErrReplaced) && sets: // as every pod does then
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

// readState reads a state file into a value, of which policy is the policy's name. With
// ErrReplaced it is what the file was.
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

// read reads a file of the kubelet. A file without a name is one that was replaced: the
// kubelet writes another one and renames it, and a mount keeps the one that it began with,
// which read returns with ErrReplaced.
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
