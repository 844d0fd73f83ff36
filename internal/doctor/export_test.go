package doctor

import (
	"testing/fstest"

	"github.com/berth-project/berth/internal/linux/topology"
)

// SampleOf returns a sample of files in memory.
func SampleOf(files map[string]string) (*Sample, error) {
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	machine, err := topology.Discover(tree)
	return &Sample{files: files, denied: map[string]string{}, machine: machine}, err
}
