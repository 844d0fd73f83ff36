package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Burst is the policy that the benchmarks set on a group.
type Burst struct {
	Policy        string `json:"policy"`
	QuotaPercent  int    `json:"cfsQuotaBurstPercent"`
	PeriodSeconds int    `json:"cfsQuotaBurstPeriodSeconds"`
}

// DefaultBurst returns the burst of a user who only sets the policy.
func DefaultBurst() Burst { return Burst{Policy: "auto", QuotaPercent: 300, PeriodSeconds: 60} }

// DefaultThreshold is the agent's default sharePoolThresholdPercent: above that use of the machine, quotas rise less.
const DefaultThreshold = 50

// Annotations returns the annotations that ask for this burst.
func (b Burst) Annotations() (map[string]string, error) {
	burst, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("annotation of a burst: %w", err)
	}
	return map[string]string{"koordinator.sh/cpuBurst": string(burst)}, nil
}

// AgentWorkload is one group that the agent manages.
type AgentWorkload struct {
	Name, Cgroup string
	// LimitCPUs is the group's limit, 0 for none.
	LimitCPUs float64
	Burst     Burst
	// Annotations replace those of Burst, unless nil. Labels are the workload's, or nil.
	Annotations, Labels map[string]string
}

// AgentSetup is what an agent manages on a host, and how.
type AgentSetup struct {
	// Threshold is sharePoolThresholdPercent.
	Threshold int
	// Reserved are CPUs that the agent never gives away exclusively.
	Reserved cpuset.Set
	// SharedPool are the groups that keep off exclusive CPUs.
	SharedPool []string
	Workloads  []AgentWorkload
	// Config are more fields of the agent's file, such as resource-qos-config.
	Config map[string]any
}

// Agent is Berth's real agent, run as a child from real files.
type Agent struct {
	child *Child
	dir   string
}

// writeAgentFiles writes the agent's configuration and one file per workload below dir, and returns the configuration's
// path.
func writeAgentFiles(dir string, setup AgentSetup) (string, error) {
	workloadDir := filepath.Join(dir, "workloads")
	if err := os.MkdirAll(workloadDir, 0o700); err != nil {
		return "", fmt.Errorf("agent files: %w", err)
	}
	for _, w := range setup.Workloads {
		content, err := w.manifest()
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(workloadDir, w.Name+".yaml"), content, 0o600); err != nil {
			return "", fmt.Errorf("agent files: %w", err)
		}
	}
	fields := map[string]any{
		"workloadDir": workloadDir,
		"stateDir":    filepath.Join(dir, "state"),
		"listen":      "127.0.0.1:0",
		"cpu-burst-config": map[string]any{
			"clusterStrategy": map[string]any{"policy": "none", "sharePoolThresholdPercent": setup.Threshold},
		},
	}
	maps.Copy(fields, setup.Config)
	if !setup.Reserved.IsEmpty() {
		fields["reservedCPUs"] = setup.Reserved.String()
	}
	if len(setup.SharedPool) > 0 {
		fields["sharedPool"] = setup.SharedPool
	}
	config, err := yaml.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("agent files: %w", err)
	}
	file := filepath.Join(dir, "agent.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return "", fmt.Errorf("agent files: %w", err)
	}
	return file, nil
}

func (w AgentWorkload) manifest() ([]byte, error) {
	annotations := w.Annotations
	if annotations == nil {
		var err error
		if annotations, err = w.Burst.Annotations(); err != nil {
			return nil, fmt.Errorf("workload %s: %w", w.Name, err)
		}
	}
	spec := map[string]any{"cgroup": w.Cgroup}
	if w.LimitCPUs > 0 {
		spec["cpu"] = map[string]string{"limit": fmt.Sprintf("%dm", int(w.LimitCPUs*1000+0.5))}
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "berth.dev/v1alpha1",
		"kind":       "Workload",
		"metadata": map[string]any{
			"name":        w.Name,
			"annotations": annotations,
			"labels":      w.Labels,
		},
		"spec": spec,
	})
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	return content, nil
}

// StartAgent writes the files into a new temporary directory and starts the agent on them.
func StartAgent(setup AgentSetup) (*Agent, error) {
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", filesPrefix, os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	config, err := writeAgentFiles(dir, setup)
	if err == nil {
		var child *Child
		if child, err = StartChild("berth agent", "agent", "--config", config); err == nil {
			return &Agent{child: child, dir: dir}, nil
		}
	}
	_ = os.RemoveAll(dir) // Return the first error.
	return nil, err
}

// filesPrefix, followed by the owner's process id, begins the names of the temporary directories.
const filesPrefix = "berth-agent-"

// SweepFiles removes the agent files that killed runs left in the temporary directory, whose owner no longer exists.
func SweepFiles() error { return Sweep(filesPrefix, os.RemoveAll) }

// Sweep calls remove for each directory of the temporary directory whose name is the prefix, the process id of its owner,
// a dash and more, and whose owner no longer exists. It leaves the directories of other users: their content is not this
// program's.
func Sweep(prefix string, remove func(dir string) error) error {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*-*"))
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	var errs []error
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if _, err := os.Stat("/proc/" + owner); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if info, err := os.Lstat(dir); err != nil || !isOwn(info) {
			continue
		}
		if err := remove(dir); err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
		}
	}
	return errors.Join(errs...)
}

// isOwn reports whether a file is a directory of this user.
func isOwn(info fs.FileInfo) bool {
	stat, is := info.Sys().(*syscall.Stat_t)
	return is && info.IsDir() && int(stat.Uid) == os.Geteuid()
}

// PID returns the agent's process id.
func (a *Agent) PID() int { return a.child.PID() }

// Alive returns an error that says why the agent ended, nil while it runs.
func (a *Agent) Alive() error { return a.child.Alive() }

// Config returns the path of the agent's configuration.
func (a *Agent) Config() string { return filepath.Join(a.dir, "agent.yaml") }

// StateDir returns the agent's state directory.
func (a *Agent) StateDir() string { return filepath.Join(a.dir, "state") }

// Writes returns the number of writes in the agent's journal so far.
func (a *Agent) Writes() (int, error) {
	snapshot, err := journal.Load(a.StateDir(), driver.Values())
	if err != nil {
		return 0, fmt.Errorf("count the agent's writes: %w", err)
	}
	writes := 0
	for _, e := range snapshot.Entries {
		writes += e.Writes
	}
	return writes, nil
}

// Stop ends the agent, which restores quotas above the limit, and keeps its files.
func (a *Agent) Stop() error { return a.child.Stop() }

// Kill ends the agent with SIGKILL, so that it restores nothing, and keeps its files.
func (a *Agent) Kill() error { return a.child.Kill() }

// Remove stops the agent and deletes its files.
func (a *Agent) Remove() error {
	err := a.Stop()
	if removeErr := os.RemoveAll(a.dir); err == nil && removeErr != nil {
		err = fmt.Errorf("remove agent files: %w", removeErr)
	}
	return err
}
