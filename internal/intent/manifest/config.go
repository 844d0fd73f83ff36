package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// DefaultConfigPath is the path of the agent's file if none is named.
const DefaultConfigPath = "/etc/berth/agent.yaml"

// LoadConfig reads the agent's file, fills in the defaults and checks it. A relative path of a directory or of TLS is
// relative to the directory of the file, so that the meaning of the file does not depend on the reader. A mistake in
// the file is a v1alpha1.ErrInvalid that names every problem; a missing file is also an fs.ErrNotExist.
func LoadConfig(path string) (v1alpha1.AgentConfig, error) {
	text, err := readText(path)
	if errors.Is(err, fs.ErrNotExist) {
		return v1alpha1.AgentConfig{}, fmt.Errorf(
			"%w: the agent's file: %w (berth agent --print-config prints one with all defaults)", v1alpha1.ErrInvalid, err)
	}
	if err != nil {
		return v1alpha1.AgentConfig{}, fmt.Errorf("the agent's file: %w", err)
	}
	cfg, err := parseConfig(path, text)
	if err != nil {
		return v1alpha1.AgentConfig{}, err
	}
	dir := filepath.Dir(path)
	if cfg.WorkloadDir != "" {
		cfg.WorkloadDir = absolute(dir, cfg.WorkloadDir)
	}
	for _, file := range []*string{&cfg.Web.TLS.CertFile, &cfg.Web.TLS.KeyFile} {
		if *file != "" {
			*file = absolute(dir, *file)
		}
	}
	cfg.StateDir = absolute(dir, cfg.StateDir)
	return cfg, nil
}

// stateDirLine matches the line of the state directory, even in invalid YAML.
var stateDirLine = regexp.MustCompile(`(?m)^stateDir:[ \t]*["']?([^"'#\s\[\]{}]+)`)

// StateDir returns the state directory that an agent's file names, even if LoadConfig refuses the file: Berth restores
// its changes in spite of a mistake. known is false if the file cannot be read or has no such line: the mistake may be
// in that line.
func StateDir(path string) (dir string, known bool) {
	text, err := readText(path)
	if err != nil {
		return "", false
	}
	line := stateDirLine.FindSubmatch(text)
	if line == nil {
		return "", false
	}
	return absolute(filepath.Dir(path), string(line[1])), true
}

var errSeveral = errors.New("more than one YAML document")

func parseConfig(path string, text []byte) (v1alpha1.AgentConfig, error) {
	documents := splitDocuments(text)
	if len(documents) > 1 {
		return v1alpha1.AgentConfig{}, invalid(path, errSeveral)
	}
	data := []byte("{}") // an empty file only lacks its required fields
	if len(documents) == 1 {
		var err error
		if data, err = documents[0].JSON(); err != nil {
			return v1alpha1.AgentConfig{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	cfg, problems := v1alpha1.DecodeAgentConfig(data)
	if _, err := cpuset.Parse(cfg.ReservedCPUs); err != nil {
		problems = append(problems, v1alpha1.FieldError{
			Field:   "reservedCPUs",
			Value:   v1alpha1.Show(cfg.ReservedCPUs),
			Allowed: fmt.Sprintf(`a list of CPUs such as "0-1,4" (%v)`, err),
		})
	}
	return cfg, problems.InFile(path).Err()
}

// ConfigWarnings returns the values of a valid configuration, read from path, that do less than they say.
func ConfigWarnings(path string, cfg v1alpha1.AgentConfig) v1alpha1.FieldErrors {
	v1alpha1.SetAgentConfigDefaults(&cfg)
	var all v1alpha1.FieldErrors
	percent, most := *cfg.CPUBurst.ClusterStrategy.CFSQuotaBurstPercent, *cfg.Burst.MaxPercent
	if percent > most {
		all = append(all, v1alpha1.FieldError{
			File:    path,
			Field:   "cpu-burst-config.clusterStrategy.cfsQuotaBurstPercent",
			Value:   v1alpha1.Show(percent),
			Allowed: fmt.Sprintf("at most burst.maxPercent, %d, which counts instead", most),
		})
	}
	return all
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
