package statedir

import "github.com/berth-project/berth/internal/cluster"

// memoryFile is what the agent knows of its cluster. It may be deleted
// at any time: an agent that starts while neither the API server nor the kubelet
// answers then knows of no pod, and gives out nothing.
const memoryFile = "cluster.json"

// remembered is the file.
type remembered struct {
	BootID string         `json:"bootID"`
	Memory cluster.Memory `json:"memory"`
}

// LoadMemory reads what an earlier agent of this boot knew, nothing where there was
// none.
func LoadMemory(stateDir, bootID string) (cluster.Memory, error) {
	var r remembered
	if err := Load(stateDir, memoryFile, &r); err != nil || r.BootID != bootID {
		return cluster.Memory{}, err
	}
	return r.Memory, nil
}

// SaveMemory replaces what an agent of this boot knows.
func SaveMemory(stateDir, bootID string, m cluster.Memory) error {
	return Save(stateDir, memoryFile, remembered{bootID, m})
}
